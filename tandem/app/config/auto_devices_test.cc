#include "tandem/app/config/auto_devices.h"

#include <gmock/gmock.h>

#include "tandem/app/testing/configuration_fixture.h"

namespace tandem::app {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AutoDevicesTest : public ConfigurationTest {
 protected:
  // On a machine with so many cores.
  Configuration on(int cores, const std::string& text, std::vector<Setting> flags = {}) {
    Surroundings machine = surroundings;
    machine.replicas_here = [cores](std::int64_t shards) {
      return static_cast<int>(std::min<std::int64_t>(cores, shards));
    };
    return app::configure({file("env: Mine-v0\ndevices: cpu:auto\n" + text), std::move(flags)}, machine);
  }
};

TEST_F(AutoDevicesTest, TheMachineDecidesTheReplicasAndNeverTheShards) {
  for (const int cores : {1, 2, 64}) {
    const Configuration chosen = on(cores, "num_envs: 16\n");
    EXPECT_EQ(chosen.options.shards, 4);
    EXPECT_EQ(chosen.options.devices, concat("cpu:", std::min(cores, 4)));
    EXPECT_THAT(chosen.yaml, HasSubstr(concat("devices: ", chosen.options.devices)));
    EXPECT_THAT(chosen.notes, Contains(concat("devices: cpu:auto is ", chosen.options.devices,
                                              " here, and shards: auto is 4 on any machine")));
  }
}

TEST_F(AutoDevicesTest, ShardsThatAreNamedStay) {
  EXPECT_EQ(on(2, "num_envs: 16\nshards: 16\n").options.devices, "cpu:2");
  EXPECT_EQ(on(64, "num_envs: 16\nshards: 16\n").options.shards, 16);
  EXPECT_THAT(on(64, "num_envs: 16\nshards: 16\n").notes, Contains("devices: cpu:auto is cpu:16 here, for shards: 16"));
}

TEST_F(AutoDevicesTest, ShardsKeepTheRulesOfTheRun) {
  EXPECT_EQ(on(8, "num_envs: 64\n").options.shards, 8);
  EXPECT_EQ(on(8, "num_envs: 8\n").options.shards, 2) << "four environments a shard";
  EXPECT_EQ(on(8, "num_envs: 6\n").options.shards, 1);
  EXPECT_EQ(on(8, "num_envs: 24\nrollout_steps: 128\nppo.minibatch_size: 6\n").options.shards, 2)
      << "a minibatch divides into them";
}

TEST_F(AutoDevicesTest, ARunThatGoesOnKeepsItsShardsOnAnyMachine) {
  const std::filesystem::path config = folder / "config.yaml";
  write_file(config, on(1, "num_envs: 16\n").yaml);
  Surroundings larger = surroundings;
  larger.replicas_here = [](std::int64_t shards) { return static_cast<int>(shards); };
  const Configuration resumed = reconfigure(config, {flag("devices", "cpu:auto")}, larger);
  EXPECT_EQ(resumed.options.devices, "cpu:4");
  EXPECT_EQ(resumed.options.shards, 4);
}

}  // namespace
}  // namespace tandem::app
