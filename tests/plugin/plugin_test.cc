// Loads plugins, good and bad, as `tandem train --plugin` does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::filesystem::path plugin(const std::string& name) { return std::filesystem::path(PLUGINS) / (name + ".so"); }

std::string fault_of(const std::filesystem::path& path) {
  EnvRegistry registry = EnvRegistry::native();
  try {
    registry.load_plugin(path);
  } catch (const ConfigError& error) {
    EXPECT_EQ(registry.entries().size(), EnvRegistry::native().entries().size()) << "a refused plugin adds nothing";
    return error.what();
  }
  return "no ConfigError";
}

TEST(PluginTest, AllOfItsEnvironmentsAreAddedAndRun) {
  std::unique_ptr<EnvGroup> group;
  {
    EnvRegistry registry = EnvRegistry::native();
    registry.load_plugin(plugin("good"));
    EXPECT_EQ(registry.entries().size(), EnvRegistry::native().entries().size() + 2);
    EXPECT_EQ(registry.spec("Dice-v0").id, "Dice-v0");
    const auto dice = std::find_if(registry.entries().begin(), registry.entries().end(),
                                   [](const EnvEntry& entry) { return entry.spec.id == "Dice-v0"; });
    EXPECT_THAT(dice->origin, AllOf(HasSubstr("plugin '"), HasSubstr("good.so'")));
    group = registry.make("Coin-v0", 2);
  }
  // The registry is gone; the group's code is not.
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  const std::vector<std::int64_t> guesses = {0, 1};
  for (int step = 1; step <= 10; ++step) {
    group->step({.discrete = guesses.data()}, buffers.arrays());
    EXPECT_EQ(buffers.truncated()[0], step == 10);
  }
}

TEST(PluginTest, WhatItsEnvironmentsThrowIsAnEnvErrorHereAsWell) {
  EnvRegistry registry;
  registry.load_plugin(plugin("good"));
  const auto group = registry.make("Coin-v0", 1);
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  const std::int64_t guess = 2;
  try {
    group->step({.discrete = &guess}, buffers.arrays());
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_STREQ(error.what(), "Coin-v0: environment 0 of 1 in step 1 of its episode: the coin fell off the table");
  }
}

// A time limit asks a group of the plugin's by its type whether it can end episodes (steps_by_row.h). If it did not
// find out, the second episode would draw from a generator of its own.
TEST(PluginTest, WrappersAskItsGroupsWhatTheyCan) {
  constexpr int kCoins = 16;
  EnvRegistry plain, limited;
  for (EnvRegistry* registry : {&plain, &limited}) registry->load_plugin(plugin("good"));
  limited.set_wrappers("Coin-v0", {"time_limit=4"});
  const auto tosses_after = [&](const EnvRegistry& registry, int steps) {
    const auto group = registry.make("Coin-v0", kCoins);
    EnvBuffers buffers(*group);
    std::vector<std::uint64_t> seeds;
    for (std::uint64_t seed = 1; seed <= kCoins; ++seed) seeds.push_back(seed);
    group->reset(seeds, buffers.arrays());
    const std::vector<std::int64_t> guesses(kCoins, 1);
    for (int step = 0; step < steps; ++step) group->step({.discrete = guesses.data()}, buffers.arrays());
    std::vector<float> tosses;
    for (std::size_t e = 0; e < kCoins; ++e) tosses.push_back(buffers.observation<float>(e)[0]);
    return tosses;
  };
  EXPECT_EQ(tosses_after(limited, 4), tosses_after(plain, 5)) << "a reset is one more toss";
}

TEST(PluginTest, EnvironmentsOfOneAndOfSeveralAgentsCanComeTogether) {
  EnvRegistry registry = EnvRegistry::native();
  registry.load_plugin(plugin("agents"));
  EXPECT_EQ(registry.spec("Coin-v0").id, "Coin-v0");
  const MultiAgentEntry* echo = registry.find_multi_agent("Echo-v0");
  ASSERT_NE(echo, nullptr);
  EXPECT_NE(registry.find_multi_agent("KuhnPoker-v0"), nullptr);
  EXPECT_EQ(echo->spec.agents.size(), 2u);
  EXPECT_THAT(echo->origin, AllOf(HasSubstr("plugin '"), HasSubstr("agents.so'")));
  EXPECT_EQ(echo->make(3)->size(), 3);
}

TEST(PluginTest, ASimulatorOfManyIsNamedInTheSameMacroAndDrawsHere) {
  EnvRegistry registry;
  registry.load_plugin(plugin("many"));
  EXPECT_EQ(registry.make("Coin-v0", 2)->size(), 2);
  const auto group = registry.make("Parking-v0", 1000);
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>(1000, 1), buffers.arrays());
  const std::vector<float> actions(2000, 0.1F);
  for (int step = 1; step <= 100; ++step) group->step({.box = actions.data()}, buffers.arrays());
  EXPECT_EQ(buffers.observation<float>(0)[2], 0) << "the time limit has begun a new episode, in which it stands";
  Canvas canvas;
  group->render(999, canvas);
  EXPECT_EQ(canvas.shapes().size(), 2u) << "a place and a cart that stands";
}

TEST(PluginTest, OfARefusedPluginNoEnvironmentOfSeveralAgentsIsAddedEither) {
  EnvRegistry registry;
  registry.load_plugin(plugin("good"));  // has a Coin-v0, too
  EXPECT_THROW(registry.load_plugin(plugin("agents")), ConfigError);
  EXPECT_EQ(registry.find_multi_agent("Echo-v0"), nullptr);
}

TEST(PluginTest, LoadingTheSamePluginTwiceIsATakenName) {
  EnvRegistry registry;
  registry.load_plugin(plugin("good"));
  EXPECT_THROW(registry.load_plugin(plugin("good")), ConfigError);
  EXPECT_EQ(registry.entries().size(), 2u);
}

struct Bad {
  const char* name;
  const char* reason;
};
class BadPluginTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadPluginTest, IsRefusedWithItsPathAndTheReason) {
  EXPECT_THAT(fault_of(plugin(GetParam().name)), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadPluginTest,
    ::testing::Values(Bad{"missing", "missing.so' does not exist (looked at /"},
                      Bad{"second_bad", "environment 'Loaded-v0': max_episode_steps = -1"},
                      Bad{"throws",
                          "throws.so' threw while registering its environments: no licence for the simulator"},
                      Bad{"throws_int", "threw while registering its environments, and not a std::exception"},
                      Bad{"none_inside", "none_inside.so' registered no environment"},
                      Bad{"no_entry_point", "'tandem_env_plugin' is missing; add TANDEM_ENV_PLUGIN(YourEnv)"},
                      Bad{"null_info", "'tandem_env_plugin' returned null"},
                      Bad{"older_interface", "was built for environment interface 0 and this tandem has 5; rebuild"},
                      Bad{"other_library", "was built with libc++ and this tandem with libstdc++; rebuild"},
                      Bad{"other_layout", "was built with other layouts (Spec "},
                      Bad{"other_agents_layout", "was built with other layouts (Spec "}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(PluginTest, AFolderATextFileAndACutFileAreNamedForWhatTheyAre) {
  const std::filesystem::path folder = ::testing::TempDir();
  EXPECT_THAT(fault_of(folder), HasSubstr("is a folder"));
  const auto written = [&](const char* name, const std::string& content) {
    const std::filesystem::path path = folder / name;
    std::ofstream(path, std::ios::binary) << content;
    std::string fault = fault_of(path);
    std::filesystem::remove(path);
    return fault;
  };
  EXPECT_THAT(written("script.so", "print('hello')"), HasSubstr("is not a shared object"));
  EXPECT_THAT(written("empty.so", ""), HasSubstr("is empty"));
  EXPECT_THAT(written("cut.so",
                      "\x7f"
                      "ELF"),
              HasSubstr("is cut off or damaged: its header should be 64 bytes at 0, and the file has 4 bytes in all"));
  // Loading one of these would end the process by SIGBUS.
  std::ifstream file(plugin("good"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 10'000U);
  for (const std::size_t size : {std::size_t{100}, whole.size() / 8, whole.size() / 2, whole.size() - 1})
    EXPECT_THAT(written("cut.so", whole.substr(0, size)), HasSubstr("is cut off or damaged: ")) << size;
}

}  // namespace
}  // namespace tandem::rl
