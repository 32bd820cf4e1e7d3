// Who leaves, rests, comes back, waits too long or fails, under SyncReplicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <latch>

#include "tandem/base/error.h"
#include "tandem/sync/testing/served_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Replica 1 leaves after one step; the other's steps are of one gradient of two.
TEST(SyncReplicasEndsTest, WhoLeavesLowersTheQuorumAndTheRateIfItIsScaled) {
  for (const RateScaling scaling : {RateScaling::kNone, RateScaling::kByGradients}) {
    std::vector<torch::Tensor> values(2);
    const auto outcomes = run_synchronous({.options = {.rate_scaling = scaling}, .build = build_linear()},
                                          [&](Replica& replica, SyncReplicas& strategy) {
                                            const int me = replica.placement().replica;
                                            for (int i = 0; i < (me == 0 ? 3 : 1); ++i)
                                              (void)step_linear(replica, strategy);
                                            strategy.leave(in_a_minute());
                                            values[static_cast<std::size_t>(me)] = linear_values(replica);
                                          });
    EXPECT_THAT(outcomes, Each(""));
    const double alone = scaling == RateScaling::kNone ? 2 : 2 * 0.5;
    for (const torch::Tensor& each : values) expect_all(each, -0.5 * (1.5 + alone));
  }
}

TEST(SyncReplicasEndsTest, WhatIsThereWhenTheLastOneLeavesIsAStep) {
  const auto outcomes = run_synchronous(
      {.options = {.replicas_to_aggregate = 6}, .build = build_linear()},
      [&](Replica& replica, SyncReplicas& strategy) {
        for (int i = 0; i < 2; ++i) EXPECT_EQ(step_linear(replica, strategy).verdict, Verdict::kAccepted);
        expect_all(strategy.whole_state(in_a_minute()).empty() ? torch::zeros({8}) : linear_values(replica), 0);
        strategy.leave(in_a_minute());
        expect_all(linear_values(replica), -0.5 * 1.5);
      });
  EXPECT_THAT(outcomes, Each(""));
}

TEST(SyncReplicasEndsTest, WhoRestsIsNotWaitedForAndGoesOnFromTheNewestValues) {
  std::latch rested(1);
  const auto outcomes = run_synchronous({.build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
    const int me = replica.placement().replica;
    (void)step_linear(replica, strategy);
    if (me == 0) {
      strategy.rest(in_a_minute());
      strategy.rest(in_a_minute());
      rested.count_down();
    } else {
      rested.wait();
      for (int i = 0; i < 2; ++i) EXPECT_EQ(step_linear(replica, strategy).weight, 1);
      strategy.rest(in_a_minute());
    }
    strategy.resume(in_a_minute());
    expect_all(linear_values(replica), -0.5 * (1.5 + 2 * 2));
    const StepReport report = step_linear(replica, strategy);
    EXPECT_EQ(report.step, 4);
    EXPECT_EQ(report.weight, 2);
    strategy.leave(in_a_minute());
  });
  EXPECT_THAT(outcomes, Each(""));
}

TEST(SyncReplicasEndsTest, BeginMayBeCalledAgainAndKeepsWhatWasGiven) {
  std::vector<torch::Tensor> values(2);
  const auto outcomes = run_synchronous(
      {.options = {.average_decay = 0.999}, .build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
        for (int epoch = 0; epoch < 3; ++epoch) {
          for (int i = 0; i < 4; ++i) EXPECT_EQ(step_linear(replica, strategy).step, 4 * epoch + i + 1);
          strategy.begin(in_a_minute());
        }
        values[static_cast<std::size_t>(replica.placement().replica)] = linear_values(replica);
      });
  EXPECT_THAT(outcomes, Each(""));
  for (const torch::Tensor& each : values) expect_all(each, -0.5 * 1.5 * 12);
}

TEST(SyncReplicasEndsTest, BeginAgainGoesOnWithTheAverages) {
  const auto outcomes = run_synchronous(
      {.options = {.average_decay = 0.5}, .build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
        for (int i = 0; i < 2; ++i) (void)step_linear(replica, strategy);
        strategy.begin(in_a_minute());
        if (replica.placement().replica == 0)
          expect_all(strategy.variables()->averages().front().second, -0.5 * 1.5 * (0.25 + 0.5 * 2));
        strategy.leave(in_a_minute());
      });
  EXPECT_THAT(outcomes, Each(""));
}

// By the first call of the last one all work again; were the second one a rest, too, the others would go on alone.
TEST(SyncReplicasEndsTest, RestingTwiceIsRestingOnce) {
  std::latch rested(1);
  const auto outcomes = run_synchronous({.build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
    (void)step_linear(replica, strategy);
    if (replica.placement().replica == 0) {
      strategy.rest(in_a_minute());
      rested.count_down();
    } else {
      rested.wait();
      for (int i = 0; i < 2; ++i) strategy.rest(in_a_minute());
    }
    strategy.resume(in_a_minute());
    EXPECT_EQ(step_linear(replica, strategy).weight, 2);
    strategy.leave(in_a_minute());
  });
  EXPECT_THAT(outcomes, Each(""));
}

TEST(SyncReplicasEndsTest, AWaitThatReachesItsDeadlineNamesWhoIsMissing) {
  const auto outcomes = run_synchronous({.build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
    (void)step_linear(replica, strategy);
    if (replica.placement().replica == 0) (void)step_linear(replica, strategy, within(20ms));
  });
  EXPECT_THAT(outcomes[0], AllOf(HasSubstr("replica 0 waited"), HasSubstr("1 of 2 gradients"), HasSubstr("replica 1")));
}

TEST(SyncReplicasEndsTest, AFailedReplicaEndsTheWaitsOfTheOthersByName) {
  const auto outcomes = run_synchronous({.build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
    (void)step_linear(replica, strategy);
    if (replica.placement().replica == 1) throw RunError("no more milk");
    for (;;) (void)step_linear(replica, strategy);
  });
  EXPECT_THAT(outcomes[0], AllOf(HasSubstr("replica 1"), HasSubstr("no more milk")));
}

// The group of the replicas fails with it, so nothing of what follows may need that.
TEST(SyncReplicasEndsTest, TheOthersGoOnWithoutAFailedReplicaIfTheyShould) {
  std::vector<torch::Tensor> values(3);
  const auto outcomes =
      run_synchronous({.shards = 3,
                       .replicas = 3,
                       .options = {.on_death = OnDeath::kGoOn, .average_decay = 0.5},
                       .build = build_linear()},
                      [&](Replica& replica, SyncReplicas& strategy) {
                        const int me = replica.placement().replica;
                        (void)step_linear(replica, strategy);
                        if (me == 1) throw RunError("no more milk");
                        for (int i = 0; i < 2; ++i) EXPECT_EQ(step_linear(replica, strategy).weight, 2);
                        strategy.leave(in_a_minute());
                        values[static_cast<std::size_t>(me)] = linear_values(replica);
                        const model::NamedTensors state = strategy.whole_state(in_a_minute());
                        if (me == 0) {
                          EXPECT_EQ(state.back().first, "averages.values");
                          expect_all(state.back().second, -0.5 * (7.0 / 3 * 0.875 + 2.5 * (0.75 + 0.5)));
                        }
                      });
  EXPECT_THAT(outcomes, ::testing::ElementsAre("", HasSubstr("no more milk"), ""));
  for (const int survivor : {0, 2}) expect_all(values[static_cast<std::size_t>(survivor)], -0.5 * (7.0 / 3 + 2 * 2.5));
}

TEST(SyncReplicasEndsTest, AStepWithoutAnyRowsFailsOnAll) {
  const auto outcomes = run_synchronous({.build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
    strategy.open(replica.placement().replica);
    strategy.close(0, 0.0);
    (void)strategy.step(1.0, in_a_minute());
  });
  EXPECT_THAT(outcomes, Each(HasSubstr("no shard had a valid row")));
}

TEST(SyncReplicasEndsTest, TheStepGoesOnFromWhatTheOptimizerHasDone) {
  model::NamedTensors state;
  const auto first = run_synchronous({.build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
    for (int i = 0; i < 3; ++i) (void)step_linear(replica, strategy);
    for (const auto& [name, tensor] : strategy.whole_state(in_a_minute())) state.emplace_back(name, tensor.clone());
  });
  EXPECT_THAT(first, Each(""));
  const auto second = run_synchronous({.build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
    strategy.load_whole_state(state);
    EXPECT_EQ(step_linear(replica, strategy).step, 4);
  });
  EXPECT_THAT(second, Each(""));
}

TEST(SyncReplicasEndsTest, AGradientThatIsNotFiniteSaysWhose) {
  const auto outcomes = run_synchronous({.build = build_linear()}, [](Replica& replica, SyncReplicas& strategy) {
    const int me = replica.placement().replica;
    strategy.open(me);
    (dynamic_cast<Linear&>(replica.module()).loss(me) * (me == 1 ? std::nan("") : 1.0)).backward();
    strategy.close(1, 0.0);
    (void)strategy.step(1.0, in_a_minute());
  });
  EXPECT_THAT(outcomes[1], HasSubstr("the gradient of 'values' [8] summed over the shards of replica 1"));
}

TEST(SyncReplicasEndsTest, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const SyncReplicasOptions& options) {
    return run_synchronous({.options = options, .build = build_linear()}, [](Replica&, SyncReplicas&) {});
  };
  EXPECT_THAT(refused({.replicas_to_aggregate = 0}), Each(HasSubstr("replicas_to_aggregate")));
  EXPECT_THAT(refused({.max_replica_grad_norm = 0}), Each(HasSubstr("max_replica_grad_norm")));
  EXPECT_THAT(refused({.initial_tokens = 2}), Each(HasSubstr("initial_tokens")));
  EXPECT_THAT(refused({.replicas_to_aggregate = 4, .tokens = Tokens::kShared, .initial_tokens = 1}),
              Each(HasSubstr("1 given, 2 needed")));
  EXPECT_THAT(refused({.mean = {.divisor = Divisor::kPresent}, .acceptance = Acceptance::kPerVariable}),
              Each(HasSubstr("leave the divisor at kTotal")));
  EXPECT_THAT(refused({.mean = {.check = GradientCheck::kEachReplica}}), Each(HasSubstr("kEachReplica")));
  EXPECT_THAT(refused({.average_decay = 1}), Each(HasSubstr("decay of 1")));
  EXPECT_THAT(refused({.average_decay = 0.9, .average_of = {"values", "nothing"}}), Each(HasSubstr("'nothing'")));
}

}  // namespace
}  // namespace tandem::sync
