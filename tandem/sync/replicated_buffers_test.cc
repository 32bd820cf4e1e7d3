// What the shards' forward passes do to the module's buffers.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include "tandem/sync/testing/replica_world.h"

namespace tandem::sync {
namespace {

struct NormedShards : torch::nn::Module {
  NormedShards() {
    norm = register_module("norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(2).momentum(0.1)));
    last_shard = register_buffer("last_shard", torch::full({1}, -1, torch::kLong));
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor last_shard;
};

// Columns of mean 1 and 3 in shard 0 and ten times as much in shard 1; unbiased variances 2 and 8, and 200 and 800.
torch::Tensor rows_of(int shard) {
  return torch::tensor({{0.0F, 1.0F}, {2.0F, 5.0F}}) * static_cast<float>(shard == 0 ? 1 : 10);
}

double pass(NormedShards& net, int shard) {
  net.norm(rows_of(shard)).square().sum().backward();
  net.last_shard.fill_(shard + 5);
  return shard == 0 ? 1 : 3;  // weights do not matter to buffers
}

void expect_buffers(NormedShards& net, const std::vector<float>& mean, const std::vector<float>& variance) {
  EXPECT_TRUE(torch::allclose(net.norm->running_mean, torch::tensor(mean))) << net.norm->running_mean;
  EXPECT_TRUE(torch::allclose(net.norm->running_var, torch::tensor(variance))) << net.norm->running_var;
}

TEST(ReplicatedBuffersTest, FloatingOnesAreTheMeanOfTheShardsAndIntegersThoseOfShardZero) {
  for (const int replicas : {1, 2}) {
    const auto outcomes = run_world(
        2, replicas, {},
        [&](Replica& replica, Replicated& strategy) {
          auto& net = dynamic_cast<NormedShards&>(replica.module());
          (void)step_over_shards(replica, strategy, [&](int shard) { return pass(net, shard); });
          // Each shard starts from mean 0 and variance 1: 0.1 * (1 + 10) / 2, and 0.9 + 0.1 * (2 + 200) / 2.
          expect_buffers(net, {0.55F, 1.65F}, {11.0F, 41.3F});
          EXPECT_EQ(net.last_shard.item<std::int64_t>(), 5);
          EXPECT_EQ(net.norm->num_batches_tracked.item<std::int64_t>(), 1) << "one step, whatever the shards";
          (void)step_over_shards(replica, strategy, [&](int shard) { return pass(net, shard); });
          expect_buffers(net, {0.55F * 1.9F, 1.65F * 1.9F}, {11.0F * 0.9F + 10.1F, 41.3F * 0.9F + 40.4F});
          EXPECT_EQ(net.norm->num_batches_tracked.item<std::int64_t>(), 2);
        },
        [](int) { return std::make_shared<NormedShards>(); });
    for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
  }
}

}  // namespace
}  // namespace tandem::sync
