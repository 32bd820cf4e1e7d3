#include "tandem/rl/algo/impala/sharded_trajectory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

constexpr int kBatchSteps = 2, kBatchEnvs = 6, kStateSize = 3;

Spec masked_spec() {
  Spec spec;
  spec.id = "Numbers-v0";
  spec.observation = {Leaf{.name = "obs", .type = ElementType::kFloat32, .shape = {2}, .low = {}, .high = {}}};
  spec.action = Discrete{2};
  spec.has_action_mask = true;
  return spec;
}

// In all tensors environment e has the number e, plus ten for every step.
QueuedBatch numbered(const Spec& spec, const std::vector<int>& groups) {
  QueuedBatch batch{.parts = {}, .results = {7}};
  int env = 0;
  for (const int rows : groups) {
    Fragment& part = batch.parts.emplace_back(spec, kBatchSteps, rows, KeptStates{.sequences = 1, .size = kStateSize});
    for (int row = 0; row < rows; ++row, ++env) {
      for (at::Tensor* tensor : {&part.observation[0], &part.action_mask, &part.action, &part.log_prob, &part.reward,
                                 &part.done, &part.state}) {
        for (std::int64_t t = 0; t < tensor->size(0); ++t) (*tensor)[t].select(0, row).fill_(env + 10 * t);
      }
    }
  }
  return batch;
}

// Whatever groups it was sampled in, each shard has its own, in their order.
TEST(ShardedTrajectoryTest, AShardHasItsGroupsOneAfterTheOther) {
  const Spec spec = masked_spec();
  for (const std::vector<int>& groups : {std::vector<int>{6}, {3, 3}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}}) {
    const QueuedBatch whole = numbered(spec, groups);
    for (const int shards : {1, 2, 3, 6}) {
      if (groups.size() % static_cast<std::size_t>(shards) != 0) continue;
      const std::vector<c10::Device> devices(static_cast<std::size_t>(shards), c10::Device(c10::kCPU));
      const int rows = kBatchEnvs / shards;
      ShardedTrajectory cut(spec, kBatchSteps, rows, kStateSize, devices);
      cut.copy_from(whole);
      EXPECT_EQ(cut.results, whole.results);
      for (int shard = 0; shard < shards; ++shard) {
        const learner::Batch& batch = cut.batches()[static_cast<std::size_t>(shard)];
        const TrajectoryView view = trajectory_view(batch.columns, batch.states);
        const at::Tensor envs = at::arange(shard * rows, (shard + 1) * rows);
        const at::Tensor steps = at::cat({envs, envs + 10}), with_last = at::cat({steps, envs + 20});
        EXPECT_TRUE(at::equal(view.reward.flatten(), steps.to(at::kFloat))) << groups.size() << " " << shards;
        EXPECT_TRUE(at::equal(view.log_prob, view.reward));
        EXPECT_TRUE(at::equal(view.done.flatten(), steps.to(at::kByte)));
        EXPECT_TRUE(at::equal(view.action, steps));
        EXPECT_TRUE(at::equal(view.observation[0].select(1, 1), with_last.to(at::kFloat)));
        EXPECT_TRUE(at::equal(view.action_mask.select(1, 0), with_last.to(at::kByte)));
        EXPECT_TRUE(at::equal(view.state.select(1, kStateSize - 1), envs.to(at::kFloat)));
      }
    }
  }
}

TEST(ShardedTrajectoryTest, PartsMustHaveAllEnvironmentsOfTheirShards) {
  const Spec spec = masked_spec();
  const std::vector<c10::Device> devices(2, c10::Device(c10::kCPU));
  ShardedTrajectory cut(spec, kBatchSteps, kBatchEnvs / 2, kStateSize, devices);
  cut.copy_from(numbered(spec, {1, 2, 2, 1}));
  for (const std::vector<int>& groups : {std::vector<int>{3, 2}, {2, 4}, {2, 2, 2}, {6}})
    EXPECT_THROW(cut.copy_from(numbered(spec, groups)), InvariantError) << groups.size();
}

}  // namespace
}  // namespace tandem::rl
