#include "tandem/learner/replica_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <stop_token>
#include <string>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/learner/testing/scale_team.h"

namespace tandem::learner {
namespace {

using namespace std::chrono_literals;

ReplicaTeam make_team(const sync::StrategyOptions& strategy, const Ranks& ranks = {}) {
  return {sync::place_on_cpu(2, 2),
          {.run_seed = 5,
           .rng = model::RngOrder::kShards,
           .optimizer = {model::SgdOptions{.lr = 0.1}},
           .flat = {},
           .strategy = strategy,
           .residence = {},
           .patience = 20s},
          [](const sync::Placement&) { return std::make_shared<Scale>(); },
          ranks};
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

// As of a rank that is stopped: the group of the ranks may know nothing of who waits for variables and tokens.
TEST(ReplicaTeamTest, ALossEndsTheWaitForATokenLongBeforeTheDeadline) {
  std::stop_source lost;
  ReplicaTeam team = make_team(sync::SyncReplicasOptions{}, Ranks().with_losses([&] { return lost.get_token(); }));
  team.run(load_eight_rows);
  std::string outcome;
  const Clock::time_point start = Clock::now();
  EXPECT_THROW(team.run([&](Member& member) {
    if (member.replica.placement().replica == 1) {
      EXPECT_TRUE(eventually([&] { return team.member(0).strategy.take_account()->replicas[0].offered == 1; }));
      lost.request_stop();
      return;  // to rest, which ends at once, too
    }
    member.learner.begin_pass(Order::kShuffled);
    const Limits limits{.deadline = Deadline::after(20s), .stop = member.lost};
    try {
      (void)member.learner.step(0, loss_of(member), 1.0, limits);
    } catch (const GroupAborted& error) {
      outcome = error.what();
      throw;
    }
  }),
               RunError);
  EXPECT_THAT(outcome, ::testing::HasSubstr("lacks those of replica 1"));
  EXPECT_LT(seconds_since(start), 15);
}

TEST(ReplicaTeamTest, WhereAllStepTogetherThereIsNoReportOfGradients) {
  ReplicaTeam team(sync::place_on_cpu(2, 2), {.optimizer = {model::SgdOptions{.lr = 0.1}}},
                   [](const sync::Placement&) { return std::make_shared<Scale>(); });
  EXPECT_EQ(team.take_gradients().has_value(), false);
}

}  // namespace
}  // namespace tandem::learner
