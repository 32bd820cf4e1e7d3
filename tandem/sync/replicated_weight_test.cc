// What a shard weighs in the mean, and steps without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;

struct Pair : torch::nn::Module {
  Pair() {
    common = register_parameter("common", torch::zeros({1}, torch::kDouble));
    rare = register_parameter("rare", torch::zeros({1}, torch::kDouble));
  }
  torch::Tensor common, rare;
};

std::shared_ptr<torch::nn::Module> build_pair(int) { return std::make_shared<Pair>(); }

// Where the parameters are after one step from zero, on `replicas` replicas.
struct Moved {
  double common = 0, rare = 0;
};
Moved step_from_zero(int shards, int replicas, Divisor divisor, const std::function<double(Pair&, int shard)>& pass) {
  Moved moved;
  const auto outcomes = run_world(
      shards, replicas, {.max_grad_norm = {}, .divisor = divisor},
      [&](Replica& replica, Replicated& strategy) {
        auto& pair = dynamic_cast<Pair&>(replica.module());
        (void)step_over_shards(replica, strategy, [&](int shard) { return pass(pair, shard); });
        if (replica.placement().replica == 0) moved = {pair.common.item<double>(), pair.rare.item<double>()};
      },
      build_pair);
  EXPECT_THAT(outcomes, Each(""));
  return moved;
}

// Three shards with gradients 1, 2 and 3 of `common`; all but shard 1 have the same of `rare`.
double pass_with_a_rare_parameter(Pair& pair, int shard) {
  (pair.common * (shard + 1.0)).sum().backward();
  if (shard != 1) (pair.rare * (shard + 1.0)).sum().backward();
  return 1;
}

TEST(ReplicatedWeightTest, AShardThatLacksAParameterCountsAsZeroOrNotAtAll) {
  for (const int replicas : {1, 2, 3}) {
    const Moved total = step_from_zero(3, replicas, Divisor::kTotal, pass_with_a_rare_parameter);
    EXPECT_DOUBLE_EQ(total.common, -0.5 * 6 / 3);
    EXPECT_DOUBLE_EQ(total.rare, -0.5 * 4 / 3);
    const Moved present = step_from_zero(3, replicas, Divisor::kPresent, pass_with_a_rare_parameter);
    EXPECT_DOUBLE_EQ(present.common, -0.5 * 6 / 3);
    EXPECT_DOUBLE_EQ(present.rare, -0.5 * 4 / 2);
  }
}

// tensorpack's average=False, of shards in place of towers.
TEST(ReplicatedWeightTest, ShardsOfEqualWeightAddUp) {
  for (const int replicas : {1, 2, 3}) {
    const Moved sum = step_from_zero(3, replicas, Divisor::kShard,
                                     [](Pair& pair, int shard) { return 5 * pass_with_a_rare_parameter(pair, shard); });
    EXPECT_DOUBLE_EQ(5 * sum.common, -0.5 * 6);
    EXPECT_DOUBLE_EQ(5 * sum.rare, -0.5 * 4);
  }
}

TEST(ReplicatedWeightTest, AShardWithoutRowsLeavesTheMeanToTheOthers) {
  for (const int replicas : {1, 2}) {
    const Moved moved = step_from_zero(2, replicas, Divisor::kTotal, [](Pair& pair, int shard) {
      if (shard == 1) return 0.0;
      (pair.common * 4.0 * 3.0).sum().backward();
      return 3.0;
    });
    EXPECT_DOUBLE_EQ(moved.common, -0.5 * 4);
    EXPECT_EQ(moved.rare, 0);
  }
}

// Runs one step that must fail; what every replica hears, and that nothing moved.
std::vector<std::string> failed_step(const std::function<double(Pair&, int shard)>& pass) {
  return run_world(
      2, 2, {},
      [&](Replica& replica, Replicated& strategy) {
        auto& pair = dynamic_cast<Pair&>(replica.module());
        try {
          (void)step_over_shards(replica, strategy, [&](int shard) { return pass(pair, shard); });
        } catch (const RunError&) {
          EXPECT_EQ(pair.common.item<double>(), 0);
          throw;
        }
      },
      build_pair);
}

TEST(ReplicatedWeightTest, AStepWithoutAnyRowFailsOnEveryReplicaAndNothingMoves) {
  EXPECT_THAT(failed_step([](Pair&, int) { return 0.0; }), Each(HasSubstr("no shard had a valid row")));
}

// Squares of float32 cannot overflow the float64 sum; those of float64 can.
TEST(ReplicatedWeightTest, ANormThatOverflowsThoughElementsAreFiniteIsSaidSo) {
  EXPECT_THAT(failed_step([](Pair& pair, int) {
                (pair.common * 1e200).sum().backward();
                return 1.0;
              }),
              Each(HasSubstr("the global norm of the gradients overflows")));
}

TEST(ReplicatedWeightTest, WhoLeavesKeepsTheStateOfThoseWhoGoOnWithoutIt) {
  const auto outcomes = run_world(
      3, 3, {},
      [&](Replica& replica, Replicated& strategy) {
        auto& pair = dynamic_cast<Pair&>(replica.module());
        const int mine = replica.placement().replica;
        const auto step = [&] {
          return step_over_shards(replica, strategy, [&](int shard) {
            (pair.common * (shard + 1.0)).sum().backward();
            return 1.0;
          });
        };
        EXPECT_EQ(step().weight, 3);
        if (mine != 0) {
          EXPECT_EQ(step().weight, 2);
        }
        strategy.leave(kNoLimits);
        EXPECT_DOUBLE_EQ(pair.common.item<double>(), -0.5 * (1 + 2 + 3) / 3 - 0.5 * (2 + 3) / 2) << "replica " << mine;
      },
      build_pair);
  EXPECT_THAT(outcomes, Each(""));
}

TEST(ReplicatedWeightTest, LeaveGivesUpAtTheDeadlineNamingWhoStayed) {
  const auto outcomes = run_world(
      2, 2, {},
      [](Replica& replica, Replicated& strategy) {
        if (replica.placement().replica == 0) strategy.leave(within(20ms));
      },
      build_pair);
  EXPECT_THAT(outcomes[0], HasSubstr("waiting for replica 1"));
  EXPECT_EQ(outcomes[1], "");
}

}  // namespace
}  // namespace tandem::sync
