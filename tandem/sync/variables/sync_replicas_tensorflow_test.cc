// The two trainings that TensorFlow's own test of its SyncReplicasOptimizer makes, step by step with the same numbers:
// two workers, and three of which two are waited for. (tensorflow/python/training/sync_replicas_optimizer_test.py.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <barrier>
#include <memory>

#include "tandem/sync/testing/served_world.h"
#include "tandem/sync/variables/sync_replicas.h"

namespace tandem::sync {
namespace {

using ::testing::Each;

// Worker w has the gradients 0.1 + 0.2 w of v0, 0.9 + 0.2 w of v1, and 0.1 + 0.2 w of the table's second row.
struct Variables : torch::nn::Module {
  Variables() {
    v0 = register_parameter("v0", torch::zeros({1}));
    v1 = register_parameter("v1", torch::ones({1}));
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(2, 1).sparse(true)));
    const torch::NoGradGuard no_grad;
    table->weight.copy_(torch::tensor({{3.0F}, {4.0F}}));
  }
  torch::Tensor loss(int worker) {
    return (0.1 + 0.2 * worker) * v0.sum() + (0.9 + 0.2 * worker) * v1.sum() +
           (0.1 + 0.2 * worker) * table(torch::tensor({1})).sum();
  }
  torch::Tensor v0, v1;
  torch::nn::Embedding table{nullptr};
};

SyncWorld workers(int count) {
  SyncReplicasOptions options = tensorflow_compatible();
  options.replicas_to_aggregate = 2;
  return {.shards = count,
          .replicas = count,
          .options = options,
          .build = [](int) { return std::make_shared<Variables>(); },
          .optimizer = model::SgdOptions{.lr = 2.0}};
}

StepReport train(Replica& replica, SyncReplicas& strategy) {
  const int worker = replica.placement().replica;
  strategy.open(worker);
  dynamic_cast<Variables&>(replica.module()).loss(worker).backward();
  strategy.close(1, 0.0);
  return strategy.step(1.0, in_a_minute());
}

// What the variables are: TensorFlow's test reads them from the server as we do here.
void expect_variables(Replica& replica, double v0, double v1, double row) {
  const auto& has = dynamic_cast<Variables&>(replica.module());
  EXPECT_NEAR(has.v0.item<double>(), v0, 1e-6);
  EXPECT_NEAR(has.v1.item<double>(), v1, 1e-6);
  EXPECT_NEAR(has.table->weight[0].item<double>(), 3.0, 1e-6);
  EXPECT_NEAR(has.table->weight[1].item<double>(), row, 1e-6);
}

TEST(SyncReplicasTensorFlowTest, TwoWorkers) {
  constexpr double kV0 = (0.1 + 0.3) / 2 * 2, kV1 = (0.9 + 1.1) / 2 * 2, kRow = (0.1 + 0.3) / 2 * 2;  // of a step
  std::barrier both(2);
  const auto outcomes = run_synchronous(workers(2), [&](Replica& replica, SyncReplicas& strategy) {
    const int me = replica.placement().replica;
    const auto in_turn = [&](const auto& act) {
      if (me == 0) act();
      both.arrive_and_wait();
      if (me == 1) act();
      both.arrive_and_wait();
    };
    // Both get a first token, of step 0, so that neither waits. The second gradient makes step 1.
    in_turn([&] {
      const StepReport report = train(replica, strategy);
      EXPECT_EQ(report.step, me);
      if (me == 1) expect_variables(replica, -kV0, 1 - kV1, 4 - kRow);
    });
    // Their tokens are of step 0, so the next gradients are stale; they are told, and get tokens of step 1.
    in_turn([&] {
      const StepReport report = train(replica, strategy);
      EXPECT_EQ(report.verdict, Verdict::kDropped);
      EXPECT_EQ(report.staleness, 1);
      EXPECT_EQ(report.step, 1);
      expect_variables(replica, -kV0, 1 - kV1, 4 - kRow);
    });
    // No token is left: now they need each other.
    const StepReport report = train(replica, strategy);
    EXPECT_EQ(report.verdict, Verdict::kApplied);
    EXPECT_EQ(report.step, 2);
    expect_variables(replica, -2 * kV0, 1 - 2 * kV1, 4 - 2 * kRow);
    strategy.leave(in_a_minute());
  });
  EXPECT_THAT(outcomes, Each(""));
}

// Worker 1 is the backup: 0 and 2 make the first step, 1 and 2 the second.
TEST(SyncReplicasTensorFlowTest, ThreeWorkersOfWhichOneIsABackup) {
  constexpr double kV0 = 0.1 + 0.5, kV1 = 0.9 + 1.3, kRow = 0.1 + 0.5;  // of the first step: 2.0 times a mean of two
  Script script({0, 2, 1, 0, 2});
  std::barrier all(3);
  const auto outcomes = run_synchronous(workers(3), [&](Replica& replica, SyncReplicas& strategy) {
    const int me = replica.placement().replica;
    int gradients = 0;
    script.play(me, [&] {
      const StepReport report = train(replica, strategy);
      const bool is_stale = me == 1 || gradients++ == 1;  // with a token of step 0 when step 1 has been made
      EXPECT_EQ(report.verdict == Verdict::kDropped, is_stale) << "of worker " << me;
      EXPECT_EQ(report.staleness, is_stale ? 1 : 0);
      if (is_stale || me == 2) expect_variables(replica, -kV0, 1 - kV1, 4 - kRow);
    });
    all.arrive_and_wait();
    // No token is left, and all have those of step 1.
    if (me != 0) {
      const StepReport report = train(replica, strategy);
      EXPECT_EQ(report.verdict, Verdict::kApplied);
      EXPECT_EQ(report.step, 2);
      expect_variables(replica, -kV0 - (0.3 + 0.5), 1 - kV1 - (1.1 + 1.3), 4 - kRow - (0.3 + 0.5));
    }
    all.arrive_and_wait();
    strategy.leave(in_a_minute());
  });
  EXPECT_THAT(outcomes, Each(""));
}

}  // namespace
}  // namespace tandem::sync
