#include "tandem/rl/env/native/memory_envs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/native/classic_group.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MaskedEnvTest, ShowsAllButTheVelocities) {
  const auto cartpole = make_masked_cartpole(1), pendulum = make_masked_pendulum(1);
  EXPECT_EQ(cartpole->spec().id, "MaskedCartPole-v1");
  EXPECT_THAT(cartpole->spec().observation[0].high, ElementsAre(static_cast<float>(4.8), ::testing::Gt(0.41)));
  EXPECT_EQ(cartpole->spec().reward_threshold, 475.0);
  EXPECT_THAT(pendulum->spec().observation[0].high, ElementsAre(1, 1));
  check_spec(cartpole->spec());
  check_spec(pendulum->spec());
}

// Steps the whole and the masked environment side by side, over several episodes.
TEST(MaskedEnvTest, ItsElementsAndEndsAreThoseOfTheWholeEnvironment) {
  constexpr std::size_t kCount = 5;
  const auto whole = make_cartpole(kCount);
  const auto masked = make_masked_cartpole(kCount);
  EnvBuffers of_whole(*whole), of_masked(*masked);
  const std::vector<std::uint64_t> seeds{1, 2, 3, 4, 5};
  whole->reset(seeds, of_whole.arrays());
  masked->reset(seeds, of_masked.arrays());
  int ended = 0;
  for (int step = 0; step < 200; ++step) {
    std::vector<std::int64_t> actions;
    for (std::size_t env = 0; env < kCount; ++env) {
      const auto shown = of_masked.observation<float>(env), all = of_whole.observation<float>(env);
      ASSERT_THAT(shown, ElementsAre(all[0], all[2]));
      actions.push_back((static_cast<std::int64_t>(env) * 3 + step * step) % 5 < 2 ? 0 : 1);
    }
    whole->step({.discrete = actions.data()}, of_whole.arrays());
    masked->step({.discrete = actions.data()}, of_masked.arrays());
    ASSERT_TRUE(std::ranges::equal(of_masked.terminated(), of_whole.terminated()));
    ASSERT_TRUE(std::ranges::equal(of_masked.reward(), of_whole.reward()));
    for (std::size_t env = 0; env < kCount; ++env) {
      if (of_whole.terminated()[env] == 0) continue;
      ++ended;
      const auto shown = of_masked.final_observation<float>(env), all = of_whole.final_observation<float>(env);
      ASSERT_THAT(shown, ElementsAre(all[0], all[2]));
    }
  }
  EXPECT_GT(ended, 10);
}

TEST(MaskedEnvTest, ASavedGroupGoesOnWhereItWas) {
  const auto first = make_masked_pendulum(2), second = make_masked_pendulum(2);
  EnvBuffers of_first(*first), of_second(*second);
  first->reset(std::vector<std::uint64_t>{7, 8}, of_first.arrays());
  const std::vector<float> torque{0.5f, -1.0f};
  first->step({.box = torque.data()}, of_first.arrays());
  second->load(first->save(), of_second.arrays());
  EXPECT_TRUE(std::ranges::equal(of_second.observation<float>(1), of_first.observation<float>(1)));
  first->step({.box = torque.data()}, of_first.arrays());
  second->step({.box = torque.data()}, of_second.arrays());
  EXPECT_TRUE(std::ranges::equal(of_second.observation<float>(1), of_first.observation<float>(1)));
}

TEST(MaskedEnvTest, AnElementThatIsNotThereIsAnError) {
  try {
    (void)show_elements(make_pendulum(1), "Odd-v0", {0, 3});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Odd-v0: element 3 of the 3 that Pendulum-v1 shows"));
  }
}

// Plays an episode; `answer` chooses from the cards seen so far, the newest last.
template <typename Answer>
double play_cards(EnvGroup& group, EnvBuffers& buffers, const Answer& answer) {
  group.reset(std::vector<std::uint64_t>{11}, buffers.arrays());
  std::vector<std::int64_t> seen;
  double total = 0;
  do {
    seen.push_back(buffers.observation<std::int64_t>(0)[0]);
    const std::int64_t action = answer(seen);
    group.step({.discrete = &action}, buffers.arrays());
    total += buffers.reward()[0];
  } while (buffers.terminated()[0] == 0);
  EXPECT_EQ(seen.size(), RepeatPrevious::kDelay + RepeatPrevious::kAnswers);
  for (std::int64_t card = 0; card < RepeatPrevious::kCards; ++card) EXPECT_GT(std::ranges::count(seen, card), 4);
  return total;
}

TEST(RepeatPreviousTest, OnlyTheCardOfTheDelayEarns) {
  EnvGroupOf<RepeatPrevious> group(1);
  EnvBuffers buffers(group);
  const auto ago = [](std::size_t steps) {
    return [steps](const std::vector<std::int64_t>& seen) {
      return seen.size() > steps ? seen[seen.size() - 1 - steps] : 0;
    };
  };
  EXPECT_NEAR(play_cards(group, buffers, ago(RepeatPrevious::kDelay)), 1, 1e-12);
  EXPECT_LT(play_cards(group, buffers, ago(RepeatPrevious::kDelay - 1)), 0);
  EXPECT_LT(play_cards(group, buffers, ago(RepeatPrevious::kDelay + 1)), 0);
  EXPECT_LT(play_cards(group, buffers, ago(0)), 0);
}

TEST(RepeatPreviousTest, ASavedGroupGoesOnWhereItWas) {
  EnvGroupOf<RepeatPrevious> first(1), second(1);
  EnvBuffers of_first(first), of_second(second);
  first.reset(std::vector<std::uint64_t>{3}, of_first.arrays());
  const std::int64_t action = 2;
  for (int step = 0; step < 9; ++step) first.step({.discrete = &action}, of_first.arrays());
  second.load(first.save(), of_second.arrays());
  for (int step = 0; step < 60; ++step) {
    ASSERT_EQ(of_second.observation<std::int64_t>(0)[0], of_first.observation<std::int64_t>(0)[0]);
    first.step({.discrete = &action}, of_first.arrays());
    second.step({.discrete = &action}, of_second.arrays());
    ASSERT_EQ(of_second.reward()[0], of_first.reward()[0]);
  }
}

TEST(RepeatPreviousTest, AStateOfAnotherSizeIsRefused) {
  RepeatPrevious env;
  EXPECT_THROW((void)env.load(std::vector<std::byte>(3)), CheckpointError);
}

}  // namespace
}  // namespace tandem::rl
