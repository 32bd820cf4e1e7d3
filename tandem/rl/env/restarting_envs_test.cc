#include "tandem/rl/env/restarting_envs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/native/classic_group.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Counts its steps from a random begin. Action 1 breaks it for good, action 2 makes it show no number.
struct Fragile {
  using Shown = std::array<float, 2>;  // begin, steps
  static Spec spec() { return {.id = "Fragile-v0", .observation = {{.shape = {2}}}, .action = Discrete{3}}; }
  Shown reset(NumpyGenerator& random) {
    if (broken) throw std::runtime_error("still broken");
    shown = {static_cast<float>(random.uniform(0, 1)), 0.0F};
    return shown;
  }
  StepResult<Shown> step(std::int64_t action) {
    broken |= action == 1;
    if (broken) throw std::runtime_error("broken");
    ++shown[1];
    if (action == 2) return {.observation = {std::numeric_limits<float>::quiet_NaN(), 0.0F}};
    return {.observation = shown, .reward = 1};
  }
  [[nodiscard]] std::array<std::byte, sizeof(Shown)> save() const {
    return std::bit_cast<std::array<std::byte, sizeof(Shown)>>(shown);
  }
  Shown load(std::span<const std::byte> state) {
    std::memcpy(shown.data(), state.data(), sizeof shown);
    return shown;
  }
  Shown shown{};
  bool broken = false;
};

std::unique_ptr<EnvGroup> make_fragile(int count) { return std::make_unique<EnvGroupOf<Fragile>>(count); }

struct Fixture {
  explicit Fixture(std::int64_t limit, int count = 3)
      : budget(std::make_shared<RestartBudget>(limit)), group(make_fragile, count, budget), buffers(group) {
    std::vector<std::uint64_t> seeds;
    for (int e = 0; e < count; ++e) seeds.push_back(static_cast<std::uint64_t>(e) + 1);
    group.reset(seeds, buffers.arrays());
  }
  void step(const std::vector<std::int64_t>& actions) { group.step({.discrete = actions.data()}, buffers.arrays()); }
  [[nodiscard]] float begin(std::size_t e) const { return buffers.observation<float>(e)[0]; }
  [[nodiscard]] float steps(std::size_t e) const { return buffers.observation<float>(e)[1]; }

  std::shared_ptr<RestartBudget> budget;
  RestartingEnvs group;
  EnvBuffers buffers;
};

TEST(RestartingEnvsTest, AnEnvironmentThatFailsBeginsANewEpisodeAndTheOthersGoOn) {
  for (const std::int64_t failing : {1, 2}) {
    Fixture f(5);
    const std::array before{f.begin(0), f.begin(1), f.begin(2)};
    f.step({0, 0, 0});
    f.step({0, failing, 0});
    EXPECT_EQ(f.begin(0), before[0]);
    EXPECT_EQ(f.begin(2), before[2]);
    EXPECT_NE(f.begin(1), before[1]);
    EXPECT_THAT((std::array{f.steps(0), f.steps(1), f.steps(2)}), ::testing::ElementsAre(2, 0, 2));
    EXPECT_THAT(f.buffers.reward(), ::testing::ElementsAre(1, 0, 1));
    EXPECT_THAT(f.buffers.truncated(), ::testing::ElementsAre(0, 1, 0));
    EXPECT_THAT(f.buffers.terminated(), ::testing::ElementsAre(0, 0, 0));
    EXPECT_THAT(f.buffers.final_observation<float>(1), ::testing::ElementsAre(before[1], 1));
    f.step({0, 0, 0});
    EXPECT_THAT(f.buffers.truncated(), ::testing::ElementsAre(0, 0, 0));
    EXPECT_EQ(f.steps(1), 1);
    EXPECT_EQ(f.budget->used(), 1);
    const std::vector<std::string> remarks = f.budget->take_remarks();
    ASSERT_EQ(remarks.size(), 1U);
    EXPECT_THAT(remarks[0], AllOf(HasSubstr("(1 of 5 times)"), HasSubstr("environment 1 of 3"), HasSubstr("Fragile-v0"),
                                  HasSubstr(failing == 1 ? "broken" : "nan")));
    EXPECT_TRUE(f.budget->take_remarks().empty());
  }
}

TEST(RestartingEnvsTest, MoreFailuresThanAllowedEndTheRun) {
  Fixture f(2);
  f.step({1, 0, 1});
  EXPECT_THAT(message_of<EnvError>([&] {
                f.step({0, 1, 0});
              }),
              AllOf(HasSubstr("environment 1 of 3"), HasSubstr("broken"), HasSubstr("failed 2 times before")));
  EXPECT_EQ(f.budget->used(), 2);
}

TEST(RestartingEnvsTest, AnActionOutsideItsSpaceIsNotTheEnvironmentsFault) {
  Fixture f(5);
  EXPECT_THROW(f.step({0, 3, 0}), EnvError);
  EXPECT_EQ(f.budget->used(), 0);
}

TEST(RestartingEnvsTest, WhatCannotBeResetIsTriedUntilTheBudgetIsUsedUp) {
  const auto budget = std::make_shared<RestartBudget>(4);
  int made = 0;
  const auto make = [&made](int count) -> std::unique_ptr<EnvGroup> {
    const bool broken = ++made < 4;
    return std::make_unique<EnvGroupOf<Fragile>>(count, [broken] {
      auto env = std::make_unique<Fragile>();
      env->broken = broken;
      return env;
    });
  };
  RestartingEnvs group(make, 1, budget);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  EXPECT_EQ(budget->used(), 3);
}

TEST(RestartingEnvsTest, EqualFailuresGiveEqualRunsAndASavedGroupGoesOnWithThem) {
  Fixture first(9, 2), same(9, 2), loaded(9, 2);
  for (Fixture* each : {&first, &same}) {
    each->step({0, 0});
    each->step({1, 0});
    each->step({0, 2});
  }
  EXPECT_EQ(first.begin(0), same.begin(0));
  loaded.group.load(first.group.save(), loaded.buffers.arrays());
  EXPECT_EQ(loaded.begin(1), first.begin(1));
  EXPECT_EQ(loaded.steps(0), 1);
  for (Fixture* each : {&first, &loaded}) each->step({1, 0});
  EXPECT_EQ(loaded.begin(0), first.begin(0)) << "the second failure's seed";
  EXPECT_THAT(loaded.buffers.final_observation<float>(0), ::testing::ElementsAre(same.begin(0), 1));
}

// A run that failed goes on with env_restarts; what its checkpoint has of environments is of the other kind.
TEST(RestartingEnvsTest, WhatWasSavedWithRestartsAndWithoutIsToldApart) {
  for (const int count : {1, 3, 11}) {  // as many as CartPole-v1 has letters
    const auto whole = make_cartpole(count);
    RestartingEnvs restarting(make_cartpole, count, std::make_shared<RestartBudget>(1));
    const std::vector<std::uint64_t> seeds(static_cast<std::size_t>(count), 7);
    EnvBuffers buffers(*whole);
    whole->reset(seeds, buffers.arrays());
    restarting.reset(seeds, buffers.arrays());
    const std::vector<std::byte> of_whole = whole->save(), of_restarting = restarting.save();
    EXPECT_TRUE(is_of_its_kind(*whole, of_whole));
    EXPECT_TRUE(is_of_its_kind(restarting, of_restarting));
    EXPECT_FALSE(is_of_its_kind(*whole, of_restarting));
    EXPECT_FALSE(is_of_its_kind(restarting, of_whole));
    for (std::size_t length = 0; length < of_restarting.size(); ++length)
      EXPECT_FALSE(is_of_its_kind(restarting, std::span(of_restarting).first(length))) << length;
  }
}

TEST(RestartingEnvsTest, WithoutFailuresItIsTheGroupItself) {
  constexpr std::size_t kCount = 5;
  const auto whole = make_cartpole(kCount);
  RestartingEnvs restarting(make_cartpole, kCount, std::make_shared<RestartBudget>(1));
  EnvBuffers of_whole(*whole), of_restarting(restarting);
  const std::vector<std::uint64_t> seeds{1, 2, 3, 4, 5};
  whole->reset(seeds, of_whole.arrays());
  restarting.reset(seeds, of_restarting.arrays());
  for (int step = 0; step < 200; ++step) {
    std::vector<std::int64_t> actions;
    for (std::size_t e = 0; e < kCount; ++e) {
      ASSERT_TRUE(std::ranges::equal(of_restarting.observation<float>(e), of_whole.observation<float>(e)));
      actions.push_back((static_cast<std::int64_t>(e) * 3 + step * step) % 5 < 2 ? 0 : 1);
    }
    whole->step({.discrete = actions.data()}, of_whole.arrays());
    restarting.step({.discrete = actions.data()}, of_restarting.arrays());
    ASSERT_TRUE(std::ranges::equal(of_restarting.terminated(), of_whole.terminated()));
  }
}

}  // namespace
}  // namespace tandem::rl
