#include "tandem/rl/env/env_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/mujoco/mujoco_envs.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Coin {
  static Spec spec() {
    return {.id = "Coin-v0", .observation = {{.name = "side", .shape = {}}}, .action = Discrete{2}};
  }
  float reset(NumpyGenerator& random) { return static_cast<float>(random.integers(0, 2)); }
  StepResult<float> step(std::int64_t action) { return {static_cast<float>(action), 1.0, true}; }
};

// A spec that only an instance can tell.
struct Dice {
  Spec spec() const {
    return {.id = "Dice-v" + std::to_string(sides), .observation = {{.shape = {}}}, .action = Discrete{sides}};
  }
  float reset(std::uint64_t) { return 0; }
  StepResult<float> step(std::int64_t) { return {0}; }
  int sides = 6;
};

// Those that Tandem brings along.
const std::size_t kNative = 10 + mujoco_entries().size();

// Without MuJoCo's, which has tests of its own (mujoco/mujoco_envs_test.cc).
std::vector<std::string> ids(const EnvRegistry& registry) {
  std::vector<std::string> all;
  for (const EnvEntry& entry : registry.entries()) {
    if (entry.origin != "tandem, MuJoCo") all.push_back(entry.spec.id);
  }
  return all;
}

TEST(EnvRegistryTest, TheNativeOnesAreThereInTheOrderOfTheirNames) {
  const EnvRegistry registry = EnvRegistry::native();
  EXPECT_THAT(ids(registry), ElementsAre("Acrobot-v1", "BitFlipping-v0", "CartPole-v1", "Catch-v0", "MaskedCartPole-v1",
                                         "MaskedPendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0",
                                         "Pendulum-v1", "RepeatPrevious-v0"));
  for (const std::string& id : ids(registry)) {
    const auto group = registry.make(id, 3);
    EXPECT_EQ(group->spec().id, id);
    EXPECT_EQ(group->size(), 3);
  }
}

// What gymnasium.spec(id) says of them.
TEST(EnvRegistryTest, LimitsAndThresholdsAreGymnasiums) {
  const EnvRegistry registry = EnvRegistry::native();
  const auto expect = [&](const char* id, int steps, std::optional<double> threshold) {
    EXPECT_EQ(registry.spec(id).max_episode_steps, steps) << id;
    EXPECT_EQ(registry.spec(id).reward_threshold, threshold) << id;
  };
  expect("CartPole-v1", 500, 475.0);
  expect("Acrobot-v1", 500, -100.0);
  expect("MountainCar-v0", 200, -110.0);
  expect("MountainCarContinuous-v0", 999, 90.0);
  expect("Pendulum-v1", 200, std::nullopt);
}

TEST(EnvRegistryTest, StructsOfAProgramAreAddedUnderTheirIds) {
  EnvRegistry registry;
  registry.add<Dice>();
  registry.add<Coin>();
  EXPECT_THAT(ids(registry), ElementsAre("Coin-v0", "Dice-v6"));
  EXPECT_EQ(registry.entries().front().origin, "this program");
  EXPECT_EQ(registry.make("Coin-v0", 5)->size(), 5);
  EXPECT_EQ(registry.make("Dice-v6", 1)->spec().id, "Dice-v6");
}

TEST(EnvRegistryTest, ATakenNameIsRefusedAndNothingChanges) {
  EnvRegistry registry = EnvRegistry::native();
  registry.add<Coin>();
  EXPECT_THAT(message_of<ConfigError>([&] { registry.add<Coin>(); }),
              HasSubstr("'Coin-v0' of this program: the name is taken by one of "));
  EnvEntry other = entry_of<Coin>();
  other.spec.id = "CartPole-v1";
  EXPECT_THAT(message_of<ConfigError>([&] { registry.add(other); }), HasSubstr("the name is taken by one of tandem"));
  EXPECT_EQ(registry.entries().size(), kNative + 1);
}

TEST(EnvRegistryTest, AFaultySpecAndAnEntryWithoutMakerAreRefused) {
  EnvRegistry registry;
  EnvEntry faulty = entry_of<Coin>();
  faulty.spec.agents = 0;
  EXPECT_THAT(message_of<ConfigError>([&] { registry.add(faulty); }), HasSubstr("agents = 0"));
  EnvEntry unmade = entry_of<Coin>();
  unmade.make = nullptr;
  EXPECT_THAT(message_of<ConfigError>([&] { registry.add(unmade); }), HasSubstr("no function that makes it"));
  EXPECT_TRUE(registry.entries().empty());
}

TEST(EnvRegistryTest, AnUnknownNameGetsTheNearestKnownOne) {
  const EnvRegistry registry = EnvRegistry::native();
  const auto answer = [&](const char* id) { return message_of<ConfigError>([&] { (void)registry.make(id, 1); }); };
  EXPECT_EQ(answer("CartPole-v2"), "there is no environment 'CartPole-v2'; did you mean 'CartPole-v1'?");
  EXPECT_THAT(answer("cartpole"), HasSubstr("did you mean 'CartPole-v1'?"));
  EXPECT_THAT(answer("Cartpol-v1"), HasSubstr("did you mean 'CartPole-v1'?"));
  EXPECT_THAT(answer("MountainCarContinous-v0"), HasSubstr("did you mean 'MountainCarContinuous-v0'?"));
  EXPECT_THAT(answer("ACROBOT-V1"), HasSubstr("did you mean 'Acrobot-v1'?"));
  EXPECT_THAT(answer("pendulum"), HasSubstr("did you mean 'Pendulum-v1'?"));
  const std::string all = answer("Doom");
  EXPECT_THAT(all, AllOf(StartsWith("there is no environment 'Doom'; known are Acrobot-v1, "),
                         HasSubstr("CartPole-v1, Catch-v0, "), HasSubstr("MultiAgentCartPole-v0, Pendulum-v1"),
                         EndsWith("; others come from plugins or are added by a program of your own")));
  EXPECT_THAT(answer(""), HasSubstr("there is no environment ''; known are Acrobot-v1"));
  EXPECT_THAT(message_of<ConfigError>([] { (void)EnvRegistry().make("CartPole-v1", 1); }),
              HasSubstr("none are registered"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)registry.spec("Acrobat-v1"); }),
              HasSubstr("did you mean 'Acrobot-v1'?"));
}

TEST(EnvRegistryTest, ACopyIsIndependent) {
  const EnvRegistry registry = EnvRegistry::native();
  EnvRegistry copy = registry;
  copy.add<Coin>();
  EXPECT_EQ(registry.entries().size(), kNative);
  EXPECT_EQ(copy.entries().size(), kNative + 1);
}

}  // namespace
}  // namespace tandem::rl
