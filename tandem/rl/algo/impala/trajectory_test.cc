#include "tandem/rl/algo/impala/trajectory.h"

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
std::vector<Fragment> numbered(const Spec& spec, const std::vector<int>& groups) {
  std::vector<Fragment> parts;
  int env = 0;
  for (const int rows : groups) {
    Fragment& part = parts.emplace_back(spec, kBatchSteps, rows, KeptStates{.sequences = 1, .size = kStateSize});
    for (int row = 0; row < rows; ++row, ++env) {
      for (at::Tensor* tensor : {&part.observation[0], &part.action_mask, &part.action, &part.log_prob, &part.reward,
                                 &part.done, &part.state}) {
        for (std::int64_t t = 0; t < tensor->size(0); ++t) (*tensor)[t].select(0, row).fill_(env + 10 * t);
      }
    }
  }
  return parts;
}

// Whatever groups it was sampled in, each shard has its own, in their order.
TEST(TrajectoryTest, AShardHasItsGroupsOneAfterTheOther) {
  const Spec spec = masked_spec();
  for (const std::vector<int>& groups : {std::vector<int>{6}, {3, 3}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}}) {
    const std::vector<Fragment> whole = numbered(spec, groups);
    for (const int shards : {1, 2, 3, 6}) {
      if (groups.size() % static_cast<std::size_t>(shards) != 0) continue;
      const int rows = kBatchEnvs / shards;
      const std::size_t parts = groups.size() / static_cast<std::size_t>(shards);
      for (int shard = 0; shard < shards; ++shard) {
        Trajectory cut(whole.front(), static_cast<int>(parts), c10::kCPU);
        cut.copy_from(std::span(whole).subspan(static_cast<std::size_t>(shard) * parts, parts));
        const learner::Batch& batch = cut.batch();
        TrajectoryView view;
        take_view(batch.columns, batch.states, view);
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

TEST(TrajectoryTest, PartsMustHaveAllEnvironmentsOfTheirShard) {
  const Spec spec = masked_spec();
  Trajectory cut(numbered(spec, {1}).front(), 3, c10::kCPU);
  cut.copy_from(numbered(spec, {1, 2}));
  for (const std::vector<int>& groups : {std::vector<int>{2}, {1, 3}, {2, 2}, {6}, {}})
    EXPECT_THROW(cut.copy_from(numbered(spec, groups)), InvariantError) << groups.size();
}

}  // namespace
}  // namespace tandem::rl
