// Runs with hindsight: what they learn from, and that they do not depend on the topology.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/algo/testing/small_off_policy.h"
#include "tandem/rl/env/testing/reach.h"
#include "tandem/rl/env/testing/wrapped_envs.h"

namespace tandem::rl {
namespace {

using rl::testing::CostlyReach;
using rl::testing::Reach;
using rl::testing::small_dqn;
using rl::testing::small_sac;
using rl::testing::SmallOffPolicy;
using ::testing::HasSubstr;

// Six bits, and a point on a line.
OffPolicySetup flips(const SmallOffPolicy& run, DqnOptions options) {
  OffPolicySetup setup = small_dqn(run, options);
  setup.make_envs = [](int count) {
    EnvRegistry registry = EnvRegistry::native();
    registry.set_options("BitFlipping-v0", {{"bits", "6"}});
    return registry.make("BitFlipping-v0", count);
  };
  return setup;
}
template <typename Env = Reach>
OffPolicySetup reaches(const SmallOffPolicy& run, SacOptions options) {
  OffPolicySetup setup = small_sac(run, options);
  setup.make_envs = [](int count) { return std::make_unique<EnvGroupOf<Env>>(count); };
  return setup;
}
template <typename Options>
Options with_hindsight(Hindsight hindsight = Hindsight::kFuture, int n_step = 1) {
  Options options;
  options.hindsight = hindsight;
  options.n_step = n_step;
  return options;
}

const std::vector<std::function<OffPolicySetup(const SmallOffPolicy&)>> kRuns{
    [](const SmallOffPolicy& run) { return flips(run, with_hindsight<DqnOptions>(Hindsight::kFuture, 3)); },
    [](const SmallOffPolicy& run) {
      DqnOptions options = with_hindsight<DqnOptions>(Hindsight::kEpisode);
      options.priority_alpha = 0.6;
      return flips(run, options);
    },
    [](const SmallOffPolicy& run) {
      OffPolicySetup setup = reaches(run, with_hindsight<SacOptions>(Hindsight::kFinal));
      setup.normalizer = {.observations = true, .rewards = true};
      return setup;
    }};

TEST(HindsightRunTest, EveryTopologyGivesTheSameBits) {
  for (const auto& make : kRuns) {
    OffPolicyRun one(make({.replicas = 1})), two(make({.replicas = 2}));
    for (int i = 0; i < 3; ++i) {
      (void)one.update();
      (void)two.update();
    }
    EXPECT_EQ(one.state_sha256(), two.state_sha256());
  }
}

TEST(HindsightRunTest, ASavedRunGoesOnWithTheBitsOfOneThatWasNotInterrupted) {
  for (const auto& make : kRuns) {
    OffPolicyRun whole(make({}));
    for (int i = 0; i < 9; ++i) (void)whole.update();  // the replay is overwritten from its beginning
    const learner::StateParts saved = whole.save();
    OffPolicyRun resumed(make({.replicas = 2}));
    (void)resumed.load([&](const std::string& name) { return learner::part_of(saved, name); });
    for (int i = 0; i < 3; ++i) {
      (void)whole.update();
      (void)resumed.update();
    }
    EXPECT_EQ(resumed.state_sha256(), whole.state_sha256());
  }
}

// Of each row that is drawn: the goals as policies see them, which are what its reward and its end follow from.
TEST(HindsightRunTest, RowsAreRewardedByTheGoalsThatTheyShow) {
  OffPolicyRun run(flips({.shards = 1}, with_hindsight<DqnOptions>()));
  for (int i = 0; i < 5; ++i) (void)run.update();
  TransitionRows rows = make_transitions(run.spec(), 500, 0);
  run.workers().front()->draw(1, Normalizers(run.spec(), {}), rows);
  const at::Tensor reached = (rows.next_observation[1] == rows.next_observation[2]).all(1);
  EXPECT_TRUE(rows.reward.equal(at::where(reached, at::zeros({500}), -at::ones({500}))));
  EXPECT_TRUE((rows.discount == 0).equal(reached));
  EXPECT_TRUE(rows.observation[2].equal(rows.next_observation[2])) << "a row has one goal";
  // Of random episodes nearly none reaches its goal; of future goals each is reached by one row at least.
  EXPECT_GT(reached.sum().item<int>(), 80);
}

TEST(HindsightRunTest, WithoutHindsightRowsAreAsTheyWere) {
  OffPolicyRun run(flips({.shards = 1}, with_hindsight<DqnOptions>(Hindsight::kNone)));
  for (int i = 0; i < 5; ++i) (void)run.update();
  TransitionRows rows = make_transitions(run.spec(), 500, 0);
  run.workers().front()->draw(1, Normalizers(run.spec(), {}), rows);
  EXPECT_LT((rows.reward == 0).sum().item<int>(), 30);
}

// A point near 1e9 has no decimals in float32, so rewards that were computed from what policies see would be 0
// everywhere.
TEST(HindsightRunTest, RewardsAreComputedFromAllDigitsOfAGoal) {
  OffPolicyRun run(reaches({.shards = 1}, with_hindsight<SacOptions>()));
  for (int i = 0; i < 5; ++i) (void)run.update();
  TransitionRows rows = make_transitions(run.spec(), 500, 2);
  run.workers().front()->draw(1, Normalizers(run.spec(), {}), rows);
  EXPECT_GT((rows.reward == -1).sum().item<int>(), 100);
  EXPECT_GT((rows.reward == 0).sum().item<int>(), 50);
  EXPECT_GT(rows.discount.min().item<float>(), 0.98F) << "nothing ends this task";
}

TEST(HindsightRunTest, EnvironmentsThatDoNotSuitItAreRefused) {
  const auto message = [](const OffPolicySetup& setup) {
    return message_of<ConfigError>([&] {
      OffPolicyRun run(setup);
      (void)run.update();
    });
  };
  EXPECT_THAT(message(small_dqn({}, with_hindsight<DqnOptions>())),
              HasSubstr("CartPole-v1 shows no leaves achieved_goal and desired_goal"));
  EXPECT_THAT(message(reaches<CostlyReach>({}, with_hindsight<SacOptions>())),
              HasSubstr("So its reward depends on something else than the goals"));
  OffPolicySetup silent = reaches({}, with_hindsight<SacOptions>());
  silent.make_envs = [](int count) -> std::unique_ptr<EnvGroup> {
    return std::make_unique<rl::testing::WrappedEnvs>(std::make_unique<EnvGroupOf<Reach>>(count));
  };
  EXPECT_THAT(message(silent), HasSubstr("nothing says what its steps are worth for other goals"));
}

}  // namespace
}  // namespace tandem::rl
