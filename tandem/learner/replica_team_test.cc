#include "tandem/learner/replica_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "tandem/learner/testing/scale_team.h"

namespace tandem::learner {
namespace {

using namespace std::chrono_literals;

ReplicaTeam make_team(const sync::StrategyOptions& strategy) {
  return {sync::place_on_cpu(2, 2),
          {.run_seed = 5,
           .rng = model::RngOrder::kShards,
           .optimizer = {model::SgdOptions{.lr = 0.1}},
           .flat = {},
           .strategy = strategy,
           .residence = {},
           .patience = 20s},
          [](const sync::Placement&) { return std::make_shared<Scale>(); }};
}

void load_eight_rows(Member& member) {
  (void)member.learner.batch().load(
      {.columns = {{"x", torch::ones({8, 3}, torch::kDouble)}, {"y", torch::ones({8}, torch::kDouble)}}, .states = {}},
      2, Tail::kDrop);
}

LossFunction loss_of(Member& member) {
  return [&member](const ShardBatch& batch) {
    return ShardLoss{.loss = (scale_of(member).forward(batch["x"]) - batch["y"]).square().mean(),
                     .weight = static_cast<double>(batch.valid_rows),
                     .outputs = {}};
  };
}

// Replica 1 makes more steps than replica 0, which waits for it meanwhile: in a sum, and at the end of the run.
TEST(ReplicaTeamTest, WhoWaitsForAllIsNotWaitedForByTheStrategy) {
  ReplicaTeam team = make_team(sync::SyncReplicasOptions{});
  team.run(load_eight_rows);
  std::vector<std::vector<std::int64_t>> steps(2);
  for (int run = 0; run < 2; ++run) {
    team.run([&](Member& member) {
      const int me = member.replica.placement().replica;
      const LossFunction loss = loss_of(member);
      member.learner.begin_pass(Order::kShuffled);
      const auto step = [&](int minibatch) {
        const LearnerReport report =
            member.learner.step(minibatch, loss, 1.0, {.deadline = Deadline::after(20s), .stop = {}});
        steps[static_cast<std::size_t>(me)].push_back(report.step.step);
      };
      for (int i = 0; i <= me; ++i) step(i);
      EXPECT_EQ(member.shard_sum.sum(std::vector<std::vector<double>>{{1.0}})[0], 2);
      for (int i = 2; i <= 2 + me; ++i) step(i);
    });
  }
  EXPECT_THAT(steps[0], ::testing::ElementsAre(1, 3, 5, 7)) << "two of each run with replica 1";
  EXPECT_THAT(steps[1], ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  const std::vector<ReplicaTeam::Work> work = team.work();
  EXPECT_EQ(work[1].staleness.offered, 8);
  EXPECT_GT(work[0].staleness.wait_seconds, 0);
  const GradientReport gradients = team.take_gradients().value();
  ASSERT_EQ(gradients.replicas.size(), 2U);
  EXPECT_EQ(gradients.replicas[0].totals.applied, 4);
  EXPECT_EQ(gradients.replicas[1].totals.offered, 8);
  EXPECT_EQ(gradients.replicas[1].totals.applied, 8);
  EXPECT_EQ(gradients.replicas[0].waited_seconds, work[0].staleness.wait_seconds);
  EXPECT_EQ(gradients.sizes.steps, 8);
  EXPECT_EQ(gradients.sizes.gradients.least, 1);
  EXPECT_EQ(gradients.sizes.gradients.sum, 12);
  EXPECT_EQ(gradients.sizes.rows.most, 2) << "a row of each";
  EXPECT_EQ(team.take_gradients()->sizes.steps, 0) << "none since";
}

TEST(ReplicaTeamTest, GradientsOfAnAsynchronousTeamAreAllAccountedFor) {
  ReplicaTeam team = make_team(sync::AsynchronousOptions{});
  team.run([](Member& member) {
    load_eight_rows(member);
    member.learner.begin_pass(Order::kShuffled);
    for (int minibatch = 0; minibatch < 3; ++minibatch)
      (void)member.learner.step(minibatch, loss_of(member), 1.0, {.deadline = Deadline::after(20s), .stop = {}});
  });
  const GradientReport gradients = team.take_gradients().value();
  for (const ReplicaGradients& each : gradients.replicas) {
    EXPECT_EQ(each.totals.offered, 3);
    EXPECT_EQ(each.totals.applied, 3);
  }
  EXPECT_EQ(gradients.sizes.steps, 6) << "each that is applied is a step";
  EXPECT_EQ(gradients.sizes.rows.sum, 6);
}

TEST(ReplicaTeamTest, WhereAllStepTogetherThereIsNoReportOfGradients) {
  ReplicaTeam team(sync::place_on_cpu(2, 2), {.optimizer = {model::SgdOptions{.lr = 0.1}}},
                   [](const sync::Placement&) { return std::make_shared<Scale>(); });
  EXPECT_EQ(team.take_gradients().has_value(), false);
}

}  // namespace
}  // namespace tandem::learner
