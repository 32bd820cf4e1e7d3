#include "tandem/learner/replayed_loss.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::learner {
namespace {

using namespace std::chrono_literals;

constexpr int kShardsOfCurve = 4, kRowsOfAll = 96;

struct Curve : torch::nn::Module {
  Curve() {
    first = register_module("first", torch::nn::Linear(3, 8));
    last = register_module("last", torch::nn::Linear(8, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(first(x))).squeeze(1); }
  torch::nn::Linear first{nullptr}, last{nullptr};
};

ReplicaTeam make_curve_team(int replicas, int shards = kShardsOfCurve) {
  TeamOptions options;
  options.run_seed = 5;
  options.optimizer = {model::AdamOptions{.lr = 0.01}};
  options.patience = 20s;
  return {sync::place_on_cpu(shards, replicas), options, [](const sync::Placement&) {
            static std::mutex one_at_a_time;  // the initial values come from the default generator
            const std::lock_guard lock(one_at_a_time);
            torch::manual_seed(11);
            return std::make_shared<Curve>();
          }};
}

Batch curve_batch(int rows = kRowsOfAll) {
  torch::manual_seed(3);
  const torch::Tensor x = torch::randn({rows, 3});
  return {.columns = {{"x", x}, {"y", x.sum(1).sin()}}, .states = {}};
}

LearnerReport replay(Member& member, std::int64_t minibatch, ReplayedLoss& loss,
                     const std::vector<double>& constants = {}) {
  const auto gradients = [&](const ShardRows& rows) { return loss.run(member.learner.batch(), rows, constants); };
  return member.learner.step(minibatch, GradientFunction(std::cref(gradients)), 1.0, sync::kNoLimits);
}

// Another weight of the error in each step.
double factor_of(std::int64_t minibatch) { return 1 + 0.25 * static_cast<double>(minibatch); }

torch::Tensor error_of(Curve& net, const ShardBatch& rows) { return (net.forward(rows["x"]) - rows["y"]).square(); }

enum class By { kLossFunction, kReplays };

struct OutcomeOfCurve {
  std::string sha256;
  std::vector<double> largest;  // error of the last minibatch, by shard of the first replica
};

OutcomeOfCurve train_curve(By by, int replicas, std::int64_t minibatch_rows, int passes = 3) {
  ReplicaTeam team = make_curve_team(replicas);
  const Batch batch = curve_batch();
  OutcomeOfCurve outcome;
  team.run([&](Member& member) {
    auto& net = dynamic_cast<Curve&>(member.replica.module());
    const bool first = member.replica.placement().replica == 0;
    ReplayedLoss replayed(member.replica, [&net](const ShardBatch& rows, const at::Tensor& constants) {
      const torch::Tensor error = error_of(net, rows);
      return DeviceLoss{.loss = error.mean() * constants.to(at::kFloat).select(0, 0),
                        .numbers = error.max().reshape({1})};
    });
    member.learner.batch().load(batch, minibatch_rows, Tail::kDrop);
    for (int pass = 0; pass < passes; ++pass) {
      member.learner.begin_pass(Order::kShuffled);
      for (std::int64_t b = 0; b < member.learner.batch().plan().minibatches; ++b) {
        if (first) outcome.largest.clear();
        if (by == By::kReplays) {
          replay(member, b, replayed, {factor_of(b)});
          for (int shard = 0; first && shard < member.replica.placement().mine.end; ++shard)
            outcome.largest.push_back(replayed.numbers(shard).front());
          continue;
        }
        const auto loss = [&](const ShardBatch& rows) {
          const torch::Tensor error = error_of(net, rows);
          if (first) outcome.largest.push_back(error.max().item<double>());
          return ShardLoss{.loss = error.mean() * factor_of(b), .weight = static_cast<double>(rows.rows)};
        };
        member.learner.step(b, LossFunction(loss), 1.0, sync::kNoLimits);
      }
    }
    if (first) outcome.sha256 = model::state_sha256(member.replica.named_state());
  });
  return outcome;
}

TEST(ReplayedLossTest, HasTheBitsOfTheSameLossAsAFunction) {
  std::set<std::string> different;
  for (const std::int64_t rows : {24, 48}) {
    for (const int replicas : {1, 2}) {
      const OutcomeOfCurve wanted = train_curve(By::kLossFunction, replicas, rows),
                           replayed = train_curve(By::kReplays, replicas, rows);
      EXPECT_EQ(replayed.sha256, wanted.sha256) << replicas << " replicas, minibatches of " << rows;
      EXPECT_EQ(replayed.largest, wanted.largest);
      different.insert(wanted.sha256);
    }
  }
  EXPECT_EQ(different.size(), 2U) << "other minibatches are another computation, other replicas are not";
}

TEST(ReplayedLossTest, RowsLieInTheSameMemoryFromStepToStep) {
  ReplicaTeam team = make_curve_team(1, 1);
  const Batch batch = curve_batch();
  std::set<const void*> memory;
  team.run([&](Member& member) {
    auto& net = dynamic_cast<Curve&>(member.replica.module());
    ReplayedLoss replayed(member.replica, [&](const ShardBatch& rows, const at::Tensor& constants) {
      for (const auto& [name, column] : rows.columns) memory.insert(column.const_data_ptr());
      memory.insert(constants.const_data_ptr());
      const torch::Tensor error = error_of(net, rows);
      return DeviceLoss{.loss = error.mean(), .numbers = constants};
    });
    for (const Order order : {Order::kSequential, Order::kShuffled}) {  // whose first rows are views
      member.learner.batch().load(batch, 24, Tail::kDrop);
      member.learner.begin_pass(order);
      for (std::int64_t b = 0; b < 4; ++b) {
        const LearnerReport report = replay(member, b, replayed, {factor_of(b)});
        EXPECT_EQ(report.rows, 24);
        EXPECT_EQ(replayed.numbers(0).front(), factor_of(b));
      }
    }
  });
  EXPECT_EQ(memory.size(), 3U);
  for (const auto& [name, column] : batch.columns)
    EXPECT_FALSE(memory.contains(column.const_data_ptr())) << name << " of the batch was written to";
}

TEST(ReplayedLossTest, MinibatchesOfOtherRowsAreRecordedAnew) {
  ReplicaTeam team = make_curve_team(1, 2);
  constexpr std::int64_t kRecordedAfter = 2;  // runs of the same rows
  team.run([&](Member& member) {
    auto& net = dynamic_cast<Curve&>(member.replica.module());
    ReplayedLoss replayed(member.replica, [&](const ShardBatch& rows, const at::Tensor&) {
      const torch::Tensor error = error_of(net, rows);
      return DeviceLoss{.loss = error.mean(), .numbers = error};
    });
    const auto step = [&](int rows, int rows_of_other) {
      const Batch mine = curve_batch(rows);
      ShardBatch all;
      all.columns = mine.columns;
      const torch::Tensor wanted = error_of(net, all).detach().to(at::kDouble);
      member.learner.batch().load_uneven(std::vector{mine, curve_batch(rows_of_other)}, 1);
      member.learner.begin_pass(Order::kSequential);
      const LearnerReport report = replay(member, 0, replayed);
      EXPECT_EQ(report.rows, rows + rows_of_other);
      EXPECT_EQ(report.step.weight, rows + rows_of_other);
      const std::span<const double> numbers = replayed.numbers(0);
      ASSERT_EQ(numbers.size(), static_cast<std::size_t>(rows));
      for (int i = 0; i < rows; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], wanted[i].item<double>());
    };
    for (const int rows : {6, 7, 6}) {
      for (int again = 0; again < kRecordedAfter + 2; ++again) step(rows, again == 1 ? 0 : 5);
    }
  });
}

TEST(ReplayedLossTest, PaddingAndNumbersBeforeTheFirstRunAreRefused) {
  ReplicaTeam team = make_curve_team(1, 1);
  const Batch batch = curve_batch(10);
  EXPECT_THROW(team.run([&](Member& member) {
    auto& net = dynamic_cast<Curve&>(member.replica.module());
    ReplayedLoss replayed(member.replica, [&](const ShardBatch& rows, const at::Tensor& constants) {
      return DeviceLoss{.loss = error_of(net, rows).mean(), .numbers = constants};
    });
    EXPECT_THROW((void)replayed.numbers(0), InvariantError);
    member.learner.batch().load(batch, 8, Tail::kPad);
    member.learner.begin_pass(Order::kShuffled);
    replay(member, 0, replayed);
    replay(member, 1, replayed);  // two rows and six of padding
  }),
               InvariantError);
}

}  // namespace
}  // namespace tandem::learner
