// Gradients that a function writes itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/learner/testing/scale_team.h"

namespace tandem::learner {
namespace {

using ::testing::HasSubstr;

constexpr int kGradientShards = 2, kGradientPasses = 3;

Batch regression_rows() {
  torch::manual_seed(3);
  return {.columns = {{"x", torch::randn({24, 3}, torch::kDouble)}, {"y", torch::randn({24}, torch::kDouble)}},
          .states = {}};
}

// Mean squared error of sum(weight * x) against y.
ShardLoss squared_error(Scale& net, const ShardBatch& rows) {
  return {.loss = (net.forward(rows["x"]) - rows["y"]).square().mean(), .weight = static_cast<double>(rows.rows)};
}

WrittenLoss squared_error_by_hand(Scale& net, const ShardRows& rows) {
  const double* x = column(rows.columns, "x").const_data_ptr<double>();
  const double* y = column(rows.columns, "y").const_data_ptr<double>();
  const double* weight = net.weight.const_data_ptr<double>();
  double* gradient = net.weight.mutable_grad().mutable_data_ptr<double>();
  double loss = 0;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const double* each = x + 3 * rows.row(i);
    const double error = each[0] * weight[0] + each[1] * weight[1] + each[2] * weight[2] - y[rows.row(i)];
    for (int f = 0; f < 3; ++f) gradient[f] += 2 * error * each[f];
    loss += error * error;
  }
  return {.loss = loss / static_cast<double>(rows.rows), .weight = static_cast<double>(rows.rows)};
}

struct Trained {
  torch::Tensor weight;
  std::vector<double> losses;
  std::int64_t rows = 0;
};

// Passes over shuffled rows; `step` makes each step of a member.
template <typename Step>
Trained train_by(int replicas, const Step& step) {
  ReplicaTeam team = make_scale_team(kGradientShards, replicas);
  const Batch batch = regression_rows();
  Trained outcome;
  team.run([&](Member& member) {
    const bool first = member.replica.placement().replica == 0;
    member.learner.batch().load(batch, 8, Tail::kDrop);
    for (int pass = 0; pass < kGradientPasses; ++pass) {
      member.learner.begin_pass(Order::kShuffled);
      for (std::int64_t b = 0; b < member.learner.batch().plan().minibatches; ++b) {
        const LearnerReport report = step(member, b);
        if (first) outcome.losses.push_back(report.step.loss);
        if (first) outcome.rows += report.rows;
      }
    }
  });
  Member member = team.member(0);
  outcome.weight = scale_of(member).weight.detach().clone();
  return outcome;
}

Trained train_by_hand(int replicas) {
  return train_by(replicas, [](Member& member, std::int64_t b) {
    const GradientFunction gradients = [&](const ShardRows& rows) {
      return squared_error_by_hand(scale_of(member), rows);
    };
    return member.learner.step(b, gradients, 1.0, sync::kNoLimits);
  });
}

TEST(LearnerGradientTest, WrittenGradientsMakeTheStepsThatABackwardPassMakes) {
  const Trained wanted = train_by(1, [](Member& member, std::int64_t b) {
    const LossFunction loss = [&](const ShardBatch& rows) { return squared_error(scale_of(member), rows); };
    return member.learner.step(b, loss, 1.0, sync::kNoLimits);
  });
  const Trained got = train_by_hand(1);
  EXPECT_TRUE(torch::allclose(got.weight, wanted.weight, 1e-12, 1e-12)) << got.weight << wanted.weight;
  EXPECT_THAT(got.losses, ::testing::Pointwise(::testing::DoubleNear(1e-12), wanted.losses));
  EXPECT_EQ(got.rows, wanted.rows);
  EXPECT_GT(got.weight.abs().max().item<double>(), 0.01) << "something was learned";
}

TEST(LearnerGradientTest, WrittenGradientsHaveTheSameBitsOnAnyNumberOfReplicas) {
  EXPECT_TRUE(torch::equal(train_by_hand(1).weight, train_by_hand(2).weight));
}

// Two parameters, of which one has no influence.
struct TwoVectors : torch::nn::Module {
  TwoVectors() {
    used = register_parameter("used", torch::ones({2}));
    idle = register_parameter("idle", torch::ones({2}));
  }
  torch::Tensor used, idle;
};

// Adam with weight decay moves what takes part even where its gradient is zero, and leaves the others alone.
TEST(LearnerGradientTest, AZeroGradientTookPartAndAResetOneDidNot) {
  const auto idle_after = [](bool reset) {
    ReplicaTeam team(
        sync::place_on_cpu(1, 1),
        {.optimizer = {model::AdamOptions{.lr = 0.1, .weight_decay = 0.5}}, .patience = std::chrono::seconds(20)},
        [](const sync::Placement&) { return std::make_shared<TwoVectors>(); });
    torch::Tensor idle;
    team.run([&](Member& member) {
      auto& pair = dynamic_cast<TwoVectors&>(member.replica.module());
      member.learner.batch().load(regression_rows(), 8, Tail::kDrop);
      member.learner.begin_pass(Order::kSequential);
      const GradientFunction gradients = [&](const ShardRows&) {
        pair.used.mutable_grad().mutable_data_ptr<float>()[0] = 1;
        if (reset) pair.idle.mutable_grad().reset();
        return WrittenLoss{.loss = 1, .weight = 1};
      };
      (void)member.learner.step(0, gradients, 1.0, sync::kNoLimits);
      idle = pair.idle.detach().clone();
    });
    return idle;
  };
  EXPECT_LT(idle_after(false)[0].item<float>(), 1);
  EXPECT_TRUE(torch::equal(idle_after(true), torch::ones({2})));
}

std::string failure_of_gradients(const GradientFunction& gradients) {
  const Batch batch = regression_rows();  // it draws from torch's default generator, which no replica may do in a step
  ReplicaTeam team = make_scale_team(2, 2);
  return message_of<RunError>([&] {
    team.run([&](Member& member) {
      member.learner.batch().load(batch, 8, Tail::kDrop);
      member.learner.begin_pass(Order::kSequential);
      (void)member.learner.step(1, gradients, 1.0, sync::kNoLimits);
    });
  });
}

TEST(LearnerGradientTest, FaultsAreThoseOfALoss) {
  EXPECT_THAT(failure_of_gradients([](const ShardRows& rows) {
                return WrittenLoss{.loss = rows.shard == 1 ? std::nan("") : 1, .weight = 1};
              }),
              HasSubstr("replica 1 on cpu, shard 1: the loss of minibatch 1 is nan"));
  EXPECT_THAT(failure_of_gradients([](const ShardRows& rows) {
                if (rows.shard == 1) (void)torch::rand({1});
                return WrittenLoss{.loss = 1, .weight = 1};
              }),
              HasSubstr("drew random numbers from torch's default generator"));
  EXPECT_THAT(failure_of_gradients([](const ShardRows&) { return WrittenLoss{}; }),
              HasSubstr("no shard had a valid row"));
}

}  // namespace
}  // namespace tandem::learner
