// Tables with sparse gradients (A-F4).
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::sync {
namespace {

constexpr int kShards = 4;

// No matrix products: their bits could depend on what other threads do (see learner/replica_team.cc).
struct SparseAndDense : torch::nn::Module {
  explicit SparseAndDense(bool sparse) {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(7, 3).sparse(sparse)));
    scale = register_parameter("scale", torch::tensor({0.7F, -1.3F, 1.9F}));
    const torch::NoGradGuard no_grad;
    table->weight.copy_(torch::arange(21, torch::kFloat).reshape({7, 3}).mul(0.37).sin());
  }
  // Shards share words and repeat them, word 6 is nobody's, and the third shard has no words at all.
  torch::Tensor loss(int shard) {
    if (shard == 2) return scale.square().sum();
    const torch::Tensor ids = torch::tensor({shard % 3, 3, 3, 5 - shard, 1});
    return torch::tanh(table(ids) * scale).square().sum(1).mul(torch::arange(1, 6)).mean();
  }
  torch::nn::Embedding table{nullptr};
  torch::Tensor scale;
};

struct WordsTrained {
  std::string sha256;
  torch::Tensor table, scale;
  double grad_norm = 0;
};

WordsTrained train_words(bool sparse, int replicas) {
  std::vector<WordsTrained> all(static_cast<std::size_t>(replicas));
  const std::vector<std::string> failures = run_world(
      kShards, replicas, {.max_grad_norm = 0.6, .divisor = {}},
      [&](Replica& replica, Replicated& strategy) {
        auto& words = dynamic_cast<SparseAndDense&>(replica.module());
        WordsTrained& mine = all[static_cast<std::size_t>(replica.placement().replica)];
        for (int step = 0; step < 3; ++step) {
          const StepReport report = step_over_shards(replica, strategy, [&](int shard) {
            (words.loss(shard) * (shard + 1.0)).backward();
            return shard + 1.0;
          });
          mine.grad_norm = report.grad_norm;
        }
        mine.sha256 = model::state_sha256(replica.named_state());
        mine.table = words.table->weight.detach().clone();
        mine.scale = words.scale.detach().clone();
      },
      [&](int) { return std::make_shared<SparseAndDense>(sparse); });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  for (const WordsTrained& other : all) EXPECT_EQ(other.sha256, all.front().sha256);
  return all.front();
}

TEST(ReplicatedSparseTest, TheStepIsThatOfDenseGradients) {
  const WordsTrained dense = train_words(false, 1), sparse = train_words(true, 2);
  EXPECT_TRUE(torch::allclose(sparse.table, dense.table, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(sparse.scale, dense.scale, 1e-5, 1e-6));
  EXPECT_NEAR(sparse.grad_norm, dense.grad_norm, 1e-6);
  EXPECT_GT(dense.grad_norm, 0.6) << "clipping should matter here";
}

TEST(ReplicatedSparseTest, EveryTopologyGivesTheSameBits) {
  const std::string expected = train_words(true, 1).sha256;
  for (const int replicas : {2, 3, 4})
    EXPECT_EQ(train_words(true, replicas).sha256, expected) << replicas << " replicas";
}

}  // namespace
}  // namespace tandem::sync
