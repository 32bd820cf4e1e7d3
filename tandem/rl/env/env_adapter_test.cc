#include "tandem/rl/env/env_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>

#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/testing/walk.h"

namespace tandem::rl {
namespace {

using testing::row;
using testing::step;
using testing::Walk;

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(EnvAdapterTest, EveryEnvironmentDrawsFromItsOwnSeed) {
  EnvGroupOf<Walk> group(3);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{7, 8, 7}, buffers.arrays());
  EXPECT_EQ(row(buffers, 0)[0], static_cast<float>(NumpyGenerator(7).integers(0, 1000)));
  EXPECT_EQ(row(buffers, 1)[0], static_cast<float>(NumpyGenerator(8).integers(0, 1000)));
  EXPECT_EQ(row(buffers, 2), row(buffers, 0));
}

TEST(EnvAdapterTest, TheTimeLimitTruncatesAndTheNextEpisodeStartsInTheSameStep) {
  EnvGroupOf<Walk> group(2);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{7, 8}, buffers.arrays());
  const float place = row(buffers, 0)[0];
  for (int i = 1; i <= 4; ++i) {
    step(group, buffers, {0, 0});
    EXPECT_THAT(buffers.truncated(), ElementsAre(0, 0)) << i;
  }
  step(group, buffers, {0, 0});
  EXPECT_THAT(buffers.truncated(), ElementsAre(1, 1));
  EXPECT_THAT(buffers.final_observation<float>(0), ElementsAre(place, 5.0f));
  NumpyGenerator random(7);
  random.integers(0, 1000);
  EXPECT_THAT(row(buffers, 0), ElementsAre(static_cast<float>(random.integers(0, 1000)), 0.0f));
  step(group, buffers, {1, 0});
  EXPECT_THAT(buffers.truncated(), ElementsAre(0, 0));
  EXPECT_THAT(buffers.reward(), ElementsAre(0.5, 0.0));
  for (int i = 2; i <= 4; ++i) step(group, buffers, {0, 0});
  EXPECT_THAT(buffers.truncated(), ElementsAre(0, 0));
  step(group, buffers, {0, 0});
  EXPECT_THAT(buffers.truncated(), ElementsAre(1, 1)) << "the second episode has the whole limit, and no more";
}

TEST(EnvAdapterTest, ATerminationIsNotATruncationAndFinalObservationsMayBeUnwanted) {
  EnvGroupOf<Walk> group(1);
  EnvBuffers buffers(group);
  std::uint64_t seed = 0;
  while (NumpyGenerator(seed).integers(0, 1000) % 10 != 9) ++seed;  // one step from the goal
  group.reset(std::vector{seed}, buffers.arrays());
  EnvArrays arrays = buffers.arrays();
  arrays.final_observation.clear();
  const std::int64_t forward = 1;
  group.step({.discrete = &forward}, arrays);
  EXPECT_THAT(buffers.terminated(), ElementsAre(1));
  EXPECT_THAT(buffers.truncated(), ElementsAre(0));
  EXPECT_THAT(buffers.final_observation<float>(0), ElementsAre(0.0f, 0.0f));
  EXPECT_EQ(row(buffers, 0)[1], 0.0f) << "the new episode";
}

TEST(EnvAdapterTest, ASavedStateContinuesToTheLastBit) {
  EnvGroupOf<Walk> group(2), other(2);
  ASSERT_TRUE(group.can_save());
  EnvBuffers buffers(group), others(other);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  for (int i = 0; i < 7; ++i) step(group, buffers, {1, 0});
  other.load(group.save(), others.arrays());
  EXPECT_EQ(row(others, 0), row(buffers, 0));
  for (int i = 0; i < 20; ++i) {
    step(group, buffers, {1, i % 2});
    step(other, others, {1, i % 2});
    EXPECT_EQ(row(others, 0), row(buffers, 0));
    EXPECT_EQ(row(others, 1), row(buffers, 1));
    EXPECT_THAT(others.truncated(), ElementsAreArray(buffers.truncated()));
  }
}

// Draws in step() from the generator that reset() showed it.
struct Drift {
  static Spec spec() { return {.id = "Drift-v0", .observation = {{.shape = {}}}, .action = Discrete{2}}; }
  double reset(NumpyGenerator& generator) {
    random = &generator;
    return place = 0.0;
  }
  StepResult<double> step(std::int64_t) { return {place += random->uniform(-1, 1), place, place > 2.0}; }
  std::string save() const { return std::to_string(place); }
  double load(std::span<const std::byte> bytes) {
    return place = std::stod(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

  NumpyGenerator* random = nullptr;
  double place = 0.0;
};

TEST(EnvAdapterTest, ANewGroupThatLoadsAStateHasItsGeneratorToo) {
  EnvGroupOf<Drift> group(2), other(2);
  EnvBuffers buffers(group), others(other);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  for (int i = 0; i < 3; ++i) step(group, buffers, {0, 0});
  other.load(group.save(), others.arrays());
  EXPECT_NEAR(row(others, 1)[0], row(buffers, 1)[0], 1e-5);
  for (int i = 0; i < 30; ++i) {
    step(group, buffers, {0, 0});
    step(other, others, {0, 0});
    EXPECT_NEAR(row(others, 0)[0], row(buffers, 0)[0], 1e-4) << i;
    EXPECT_NEAR(row(others, 1)[0], row(buffers, 1)[0], 1e-4) << i;
  }
}

// Several leaves of all types, several choices, an action mask, a simulator with its own generator, no save.
struct Robot {
  static Spec spec() {
    return {.id = "Robot-v0",
            .observation = {{.name = "image", .type = ElementType::kUInt8, .shape = {2, 2}},
                            {.name = "joints", .shape = {3}},
                            {.name = "clock", .type = ElementType::kInt64, .shape = {}},
                            {.name = "touch", .type = ElementType::kUInt8, .shape = {}}},
            .action = MultiDiscrete{{3, 2}},
            .has_action_mask = true};
  }
  using Shown = std::tuple<std::span<const std::uint8_t>, std::array<double, 3>, int, bool>;
  struct Result {
    Shown observation;
    float reward;
    bool terminated, truncated;
  };

  Shown reset(std::uint64_t seed) {
    first_seed = seed;
    clock = 0;
    return shown();
  }
  Result step(std::span<const std::int64_t> action) {
    ++clock;
    pixels[3] = static_cast<std::uint8_t>(10 * action[0] + action[1]);
    return {shown(), 2.0f, false, clock == 3};
  }
  void action_mask(std::span<std::uint8_t> allowed) const {
    for (std::size_t i = 0; i < allowed.size(); ++i)
      allowed[i] = (i + first_seed) % 2 == 0 || broken_mask || clock == 1;
    if (broken_mask) allowed[3] = allowed[4] = 0;
  }
  Shown shown() const { return {pixels, {0.5, 1.5, static_cast<double>(first_seed % 1000)}, clock, clock > 1}; }

  std::vector<std::uint8_t> pixels{1, 2, 3, 4};
  std::uint64_t first_seed = 0;
  int clock = 0;
  bool broken_mask = false;
};

TEST(EnvAdapterTest, LeavesOfAllTypesAndMasksGoToTheirRows) {
  EnvGroupOf<Robot> group(2);
  EXPECT_FALSE(group.can_save());
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{41, 42}, buffers.arrays());
  EXPECT_THAT(buffers.action_mask(), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 0, 1));
  step(group, buffers, {2, 1, 0, 1});
  EXPECT_THAT(buffers.action_mask(), ::testing::Each(1)) << "of the state after the step";
  EXPECT_THAT(buffers.observation<std::uint8_t>(0, 0), ElementsAre(1, 2, 3, 21));
  EXPECT_THAT(buffers.observation<std::uint8_t>(1, 0), ElementsAre(1, 2, 3, 1));
  EXPECT_THAT(buffers.observation<float>(1, 1), ElementsAre(0.5f, 1.5f, 42.0f));
  EXPECT_THAT(buffers.observation<std::int64_t>(1, 2), ElementsAre(1));
  EXPECT_THAT(buffers.observation<std::uint8_t>(1, 3), ElementsAre(0));
  EXPECT_THAT(buffers.reward(), ElementsAre(2.0, 2.0));
  EXPECT_THROW((void)group.save(), EnvError);
  EXPECT_THROW(group.load({}, buffers.arrays()), EnvError);
}

TEST(EnvAdapterTest, ASeedingStructGetsTheCallersSeedAndThenDrawsOfItsGenerator) {
  EnvGroupOf<Robot> group(1);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{41}, buffers.arrays());
  EXPECT_EQ(group.env(0).first_seed, 41u);
  for (int i = 0; i < 3; ++i) step(group, buffers, {0, 0});
  EXPECT_THAT(buffers.truncated(), ElementsAre(1));
  EXPECT_THAT(buffers.final_observation<std::int64_t>(0, 2), ElementsAre(3));
  EXPECT_EQ(group.env(0).first_seed, NumpyGenerator(41).next_uint64());
}

TEST(EnvAdapterTest, AMaskThatLeavesNoOptionIsAnError) {
  EnvGroupOf<Robot> group(1, [] {
    auto robot = std::make_unique<Robot>();
    robot->broken_mask = true;
    return robot;
  });
  EnvBuffers buffers(group);
  try {
    group.reset(std::vector<std::uint64_t>{41}, buffers.arrays());
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_STREQ(error.what(),
                 "Robot-v0: environment 0 of 1 in reset(): its action mask leaves no option for choice 1");
  }
}

}  // namespace
}  // namespace tandem::rl
