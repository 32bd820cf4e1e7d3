// `tandem tune` as its users meet it: real runs, the file that they lead to, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TuneProgramTest : public ::testing::Test {
 protected:
  // Runs of some ten milliseconds.
  Outcome tune(std::vector<std::string> more, const std::string& output = "tuned.yaml") {
    std::vector<std::string> arguments{"tune", "--env", "CartPole-v1", "--num-envs", "4", "--rollout-steps", "16"};
    arguments.insert(arguments.end(), {"--minibatches", "2", "--epochs", "1", "--set", "policy.hidden=8"});
    arguments.insert(arguments.end(), {"--seconds", "0.01", "--rounds", "2", "-o", at(output)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_captured(arguments);
  }
  std::string at(const std::string& name) { return folder / name; }

  TemporaryFolder folder;
};

TEST_F(TuneProgramTest, RealRunsLeadToAFileThatTrainTakes) {
  const Outcome tuned = tune({"--devices", "cpu:2", "--vary", "devices,minibatch", "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const JsonValue found = read_json(tuned.out);
  const std::vector<JsonValue>& layouts = found.at("layouts").as_array();
  ASSERT_EQ(layouts.size(), 8U);  // one or two replicas; 1, 2, 4 or 8 minibatches
  for (const JsonValue& layout : layouts) {
    EXPECT_EQ(layout.at("runs").as_int64(), 2);
    EXPECT_GT(layout.at("env_steps_per_s").at("lowest").as_double(), 0);
    for (const char* share : {"sample_share", "learn_share"}) EXPECT_GT(layout.at(share).as_double(), 0) << share;
  }
  EXPECT_THAT(tuned.err, AllOf(HasSubstr("round 1 of 2, run 1 of 16, as given"), HasSubstr("left, devices cpu:1")));

  const JsonValue& chosen = layouts.at(static_cast<std::size_t>(found.at("chosen").as_int64()));
  const Outcome trained =
      run_captured({"train", at("tuned.yaml"), "--total-steps", "128", "--run-dir", at("run"), "--quiet"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string config = read_file(folder / "run" / "config.yaml");
  EXPECT_THAT(config, AllOf(HasSubstr("\nshards: 2"), HasSubstr("\nnum_envs: 4")));
  for (const auto& [key, value] : chosen.at("settings").as_object())
    EXPECT_THAT(config, HasSubstr(key.substr(key.find('.') + 1) + ": " + value.as_string()));
}

TEST_F(TuneProgramTest, ReplicasAreTriedWithTheShardsThatAutoMeans) {
  const Outcome tuned = tune({"--devices", "cpu:2", "--vary", "devices", "--json", "--quiet"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_THAT(tuned.err, IsEmpty());
  const JsonValue found = read_json(tuned.out);
  const std::vector<JsonValue>& layouts = found.at("layouts").as_array();
  ASSERT_EQ(layouts.size(), 2U);
  EXPECT_EQ(layouts[1].at("settings").at("devices").as_string(), "cpu:1");
  EXPECT_EQ(layouts[1].at("learns").as_string(), "same bits");  // or it would have ended as a defect
  EXPECT_THAT(read_file(at("tuned.yaml")), HasSubstr("\nshards: 2"));
}

TEST_F(TuneProgramTest, PipelinesAndSeveralAgentsAreTunedToo) {
  const Outcome impala =
      run_captured({"tune", "--algo", "impala", "--env", "CartPole-v1", "--vary", "workers,loaders", "--seconds",
                    "0.01", "--rounds", "1", "--set", "policy.hidden=8", "-o", at("a.yaml")});
  ASSERT_EQ(impala.code, 0) << impala.err;
  EXPECT_THAT(impala.out, AllOf(HasSubstr("impala.workers 1, impala.loaders 2  other"), HasSubstr("as given")));
  const Outcome several = run_captured({"tune", "--env", "KuhnPoker-v0", "--vary", "minibatch", "--seconds", "0.01",
                                        "--rounds", "1", "--set", "policy.hidden=8", "-o", at("b.yaml")});
  ASSERT_EQ(several.code, 0) << several.err;
  EXPECT_THAT(several.out, HasSubstr("ppo.minibatches"));
}

TEST_F(TuneProgramTest, AllThatIsWrongIsSaidBeforeTheFirstRun) {
  write_file(folder / "tuned.yaml", "mine");
  const Outcome refused = tune({"--vary", "shards,speed", "--set", "profile=true", "--set", "ppo.gama=1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("tuned.yaml: there is such a file"), HasSubstr("--vary shards,speed: expected"),
                    HasSubstr("profile = true (--set): belongs to one training"), HasSubstr("ppo.gama = 1"),
                    ::testing::Not(HasSubstr("round 1"))));
  EXPECT_EQ(read_file(folder / "tuned.yaml"), "mine");
  EXPECT_THAT(tune({}, "no/such/folder.yaml").err, HasSubstr("no file can be written in"));
  EXPECT_EQ(tune({"--shards", "3", "--vary", "minibatch"}, "b.yaml").code, 2);
  // One shard is one replica.
  const Outcome nothing = tune({}, "b.yaml");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("there is nothing to try"));
}

}  // namespace
}  // namespace tandem::app
