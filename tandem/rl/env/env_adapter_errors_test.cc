#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/testing/walk.h"

// What EnvGroupOf says when an environment misbehaves, cannot be made or loaded, or disagrees with its spec.
namespace tandem::rl {
namespace {

using ::testing::HasSubstr;
using testing::step;
using testing::Walk;

TEST(EnvAdapterTest, AStateThatTheStructRefusesIsACheckpointErrorWithItsReason) {
  EnvGroupOf<Walk> group(1);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  StateWriter writer;
  writer.put(std::uint32_t{1});
  writer.put_text("Walk-v0");
  writer.put(std::uint64_t{1});
  writer.put(NumpyGenerator(1).state());
  writer.put(std::int32_t{2});
  writer.put_bytes(std::as_bytes(std::span("short")));
  try {
    group.load(writer.take(), buffers.arrays());
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(), "Walk-v0: environment 0 of 1 in load(): a walk has 16 bytes");
  }
  std::vector<std::byte> late = group.save();
  const std::size_t elapsed_at = 4 + 8 + std::strlen("Walk-v0") + 8 + sizeof(NumpyGenerator::State);
  for (const auto steps : {std::byte{5}, std::byte{0xff}}) {  // the limit; with the sign bit: negative
    late[elapsed_at] = steps;
    late[elapsed_at + 3] = steps == std::byte{0xff} ? steps : std::byte{0};
    EXPECT_THROW(group.load(late, buffers.arrays()), CheckpointError);
  }
  std::vector<std::byte> cut = group.save();
  cut.push_back(std::byte{0});
  EXPECT_THROW(group.load(cut, buffers.arrays()), CheckpointError);
  cut.resize(cut.size() - 3);
  EXPECT_THROW(group.load(cut, buffers.arrays()), CheckpointError);
}

// Shows its step count, which its spec says is at most 1.
struct Counter {
  static Spec spec() {
    return {.id = "Counter-v0",
            .observation = {{.type = ElementType::kInt64, .low = {0}, .high = {1}}},
            .action = Discrete{2}};
  }
  std::int64_t reset(std::uint64_t) { return steps = 0; }
  StepResult<std::int64_t> step(std::int64_t action) { return {.observation = steps += action == 0 ? -1 : 1}; }
  std::int64_t steps = 0;
};

TEST(EnvAdapterTest, AnIntegerOutsideOfItsBoundsIsNamedWithEnvironmentStepAndValue) {
  EnvGroupOf<Counter> group(2);
  EnvBuffers buffers(group);
  const auto reason = [&](const std::vector<std::int64_t>& actions) -> std::string {
    try {
      step(group, buffers, actions);
    } catch (const EnvError& error) {
      return error.what();
    }
    return "";
  };
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  EXPECT_EQ(reason({1, 1}), "");
  EXPECT_EQ(
      reason({0, 1}),
      "Counter-v0: environment 1 of 2 in step 2 of its episode: element 0 of its observation leaf 'obs' is 2; the "
      "spec says 0 .. 1");
  EXPECT_THAT(reason({0, 0}), HasSubstr("leaf 'obs' is -1; the spec says 0 .. 1"));
}

struct WrongAction {
  std::int64_t action;
  const char* reason;
};
class EnvAdapterErrorTest : public ::testing::TestWithParam<WrongAction> {};

TEST_P(EnvAdapterErrorTest, NamesEnvironmentStepAndReason) {
  EnvGroupOf<Walk> group(3);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1, 2, 3}, buffers.arrays());
  step(group, buffers, {0, 0, 0});
  try {
    step(group, buffers, {0, GetParam().action, 0});
    FAIL() << "no error for action " << GetParam().action;
  } catch (const EnvError& error) {
    EXPECT_STREQ(error.what(), GetParam().reason);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, EnvAdapterErrorTest,
    ::testing::Values(
        WrongAction{2, "Walk-v0: environment 1 of 3 in step 2 of its episode: the motor broke"},
        WrongAction{3, "Walk-v0: environment 1 of 3 in step 2 of its episode: its reward is nan"},
        WrongAction{
            4, "Walk-v0: environment 1 of 3 in step 2 of its episode: element 1 of its observation leaf 'obs' is inf"},
        WrongAction{
            5,
            "Walk-v0: environment 1 of 3 in step 2 of its episode: its observation leaf 'obs' has 3 elements; the "
            "spec says 2 (obs float32[2])"},
        WrongAction{6, "Walk-v0: environment 1 was given action 6; its actions are 0 .. 5"}));

// A one-element Box whose spec can be spoilt.
struct Dial {
  Spec spec() const { return spec_of_all; }
  float reset(std::uint64_t) { return 0.0f; }
  StepResult<float> step(std::span<const float> action) { return {action[0] * 2.0f, 1.0}; }

  static inline Spec spec_of_all;
};

class SpecAgainstStructTest : public ::testing::Test {
 protected:
  SpecAgainstStructTest() {
    Dial::spec_of_all = {.id = "Dial-v0", .observation = {{.name = "dial", .shape = {}}}, .action = Box{{-1}, {1}}};
  }
  static void expect_fault(const char* reason) {
    try {
      EnvGroupOf<Dial> group(1);
      FAIL() << "no fault; expected: " << reason;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("environment 'Dial-v0': "));
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
  }
};

TEST_F(SpecAgainstStructTest, ABoxActionArrivesAsItsElements) {
  EnvGroupOf<Dial> group(2);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  const std::array actions = {0.25f, -4.0f};
  group.step({.box = actions.data()}, buffers.arrays());
  EXPECT_EQ(buffers.observation<float>(0)[0], 0.5f);
  EXPECT_EQ(buffers.observation<float>(1)[0], -8.0f);
}

TEST_F(SpecAgainstStructTest, FaultsOfTheSpecItselfAreReported) {
  Dial::spec_of_all.max_episode_steps = -3;
  expect_fault("max_episode_steps = -3");
}

TEST_F(SpecAgainstStructTest, TheFormOfStepMustFitTheActions) {
  Dial::spec_of_all.action = Discrete{3};
  expect_fault("its actions are Discrete(3), so step() must take std::int64_t");
  Dial::spec_of_all.action = MultiDiscrete{{3, 3}};
  expect_fault("so step() must take std::span<const std::int64_t>");
}

TEST_F(SpecAgainstStructTest, TheTypesOfTheObservationMustFitTheLeaves) {
  Dial::spec_of_all.observation.front().type = ElementType::kInt64;
  expect_fault("observation leaf 0 is 'dial int64[]' in its spec, and its observations hold float32");
  Dial::spec_of_all.observation.push_back({.name = "more", .shape = {1}});
  expect_fault("made of 1 arrays and its spec has 2 leaves");
}

TEST_F(SpecAgainstStructTest, AgentsAndMasksMustBeWhatTheStructHas) {
  Dial::spec_of_all.agents = 2;
  expect_fault("several agents need a MultiAgentSpec");
  Dial::spec_of_all.agents = 1;
  Dial::spec_of_all.action = Discrete{2};
  Dial::spec_of_all.has_action_mask = true;
  expect_fault("needs action_mask(std::span<std::uint8_t>) const");
}

TEST(EnvAdapterTest, AnEnvironmentThatCannotBeMadeSaysWhichAndWhy) {
  int made = 0;
  const auto make = [&]() -> std::unique_ptr<Walk> {
    if (made++ == 2) throw std::runtime_error("no such map: maze.txt");
    return std::make_unique<Walk>();
  };
  try {
    EnvGroupOf<Walk> group(4, make);
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_STREQ(error.what(), "making environment 2 of 4 failed: no such map: maze.txt");
  }
  EXPECT_THROW(EnvGroupOf<Walk>(0), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
