// What minibatches that the rows do not fill do to the parameters (A-F5, A-F8).
#include <gtest/gtest.h>

#include "tandem/learner/testing/scale_team.h"

namespace tandem::learner {
namespace {

// 11 rows on 4 shards, two rows of each in a minibatch. In the order of a sequential pass shard 0 holds the rows
// 0 1 8, shard 1 holds 2 3 9, shard 2 holds 4 5 10 and shard 3 only 6 7.
constexpr int kShards = 4, kUnevenRows = 11, kMinibatch = 8;
const std::vector<std::int64_t> kFirst = {0, 1, 2, 3, 4, 5, 6, 7};

Batch all_rows() {
  const torch::Tensor x = torch::arange(kUnevenRows * 3, torch::kDouble).mul(0.61).sin().reshape({kUnevenRows, 3});
  return {.columns = {{"x", x}, {"y", torch::arange(kUnevenRows, torch::kDouble).cos()}}, .states = {}};
}

// The mean over the valid rows, of which a shard may have none.
ShardLoss masked_error(Scale& net, const ShardBatch& batch) {
  torch::Tensor error = (net.forward(batch["x"]) - batch["y"]).square();
  if (batch.valid.defined()) error = error * batch.valid;
  return {.loss = error.sum() / batch.valid_rows, .weight = static_cast<double>(batch.valid_rows), .outputs = {}};
}

struct Outcome {
  torch::Tensor weight;
  std::int64_t rows_trained = 0;  // by all replicas
  double last_weight = 0;         // of the last step
};

// Two sequential passes.
Outcome train(int replicas, Tail tail) {
  ReplicaTeam team = make_scale_team(kShards, replicas);
  const Batch batch = all_rows();
  Outcome outcome;
  std::vector<double> last(static_cast<std::size_t>(replicas));
  team.run([&](Member& member) {
    member.learner.batch().load(batch, kMinibatch, tail);
    for (int pass = 0; pass < 2; ++pass) {
      member.learner.begin_pass(Order::kSequential);
      for (std::int64_t b = 0; b < member.learner.batch().plan().minibatches; ++b) {
        const LearnerReport report = member.learner.step(
            b, [&](const ShardBatch& some) { return masked_error(scale_of(member), some); }, 1.0, sync::kNoLimits);
        last[static_cast<std::size_t>(member.replica.placement().replica)] = report.step.weight;
      }
    }
  });
  for (int r = 0; r < replicas; ++r) outcome.rows_trained += team.member(r).learner.rows_trained();
  Member member = team.member(0);
  outcome.weight = scale_of(member).weight.detach().clone();
  outcome.last_weight = last.front();
  return outcome;
}

// Two passes with plain torch, each step over the mean of the rows that it names.
torch::Tensor by_hand(const std::vector<std::vector<std::int64_t>>& steps) {
  Scale net;
  const Batch batch = all_rows();
  for (int pass = 0; pass < 2; ++pass) {
    for (const std::vector<std::int64_t>& step : steps) {
      const torch::Tensor chosen = torch::tensor(step, torch::kLong);
      const torch::Tensor x = column(batch.columns, "x").index_select(0, chosen);
      (net.forward(x) - column(batch.columns, "y").index_select(0, chosen)).square().mean().backward();
      const torch::NoGradGuard no_grad;
      net.weight.sub_(net.weight.grad(), 0.1);
      net.zero_grad();
    }
  }
  return net.weight.detach();
}

void expect_equal(const torch::Tensor& got, const torch::Tensor& expected) {
  EXPECT_TRUE(torch::allclose(got, expected, 1e-12, 1e-12)) << got << "\n" << expected;
}

TEST(LearnerTailTest, PaddedRowsCountForNothingInTheMeanOfAllShards) {
  for (const int replicas : {1, 2, 4}) {
    const Outcome outcome = train(replicas, Tail::kPad);
    expect_equal(outcome.weight, by_hand({kFirst, {8, 9, 10}}));
    EXPECT_EQ(outcome.last_weight, 3);
    EXPECT_EQ(outcome.rows_trained, 2 * kUnevenRows);
  }
}

TEST(LearnerTailTest, WrappedRowsCountTwice) {
  for (const int replicas : {1, 2, 4}) {
    const Outcome outcome = train(replicas, Tail::kWrap);
    expect_equal(outcome.weight, by_hand({kFirst, {8, 0, 9, 2, 10, 4, 6, 7}}));
    EXPECT_EQ(outcome.last_weight, kMinibatch);
    EXPECT_EQ(outcome.rows_trained, 2 * 2 * kMinibatch);
  }
}

TEST(LearnerTailTest, DroppedRowsAreInNoSequentialPass) {
  const Outcome outcome = train(2, Tail::kDrop);
  expect_equal(outcome.weight, by_hand({kFirst}));
  EXPECT_EQ(outcome.rows_trained, 2 * kMinibatch);
}

}  // namespace
}  // namespace tandem::learner
