// rl/env/wrappers/lone_envs.h: environments in groups of one, for wrappers that step by rows (steps_by_row.h) around
// groups that do not: a simulator that steps all at once, or a group of a plugin's own.
//
// An episode that is to be ended in a group that cannot do that (kLastStep) is truncated here, and the environment is
// reset with a new seed: derive_seed(seed, SeedPurpose::kEnvWrapper, n), of the environment's seed and its n-th reset
// of this kind, n >= 1, with the upper bit of n set, so that no wrapper's generator has it. So later episodes follow
// from the seed alone. The metrics of such an episode are not known.
//
// Threads: single-thread, as every EnvGroup. Errors: those of the groups pass unchanged.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/steps_by_row.h"

namespace tandem::rl {

/// Makes a group of so many environments.
using MakeEnvGroup = std::function<std::unique_ptr<EnvGroup>(int count)>;

/// A group that steps by rows: what `make` makes, where that can, and else groups of one.
[[nodiscard]] std::unique_ptr<EnvGroup> group_by_row(const MakeEnvGroup& make, int count);

class LoneEnvs final : public EnvGroup, public StepsByRow, public GoalRewards {
 public:
  /// `groups`: of one environment each, at least one, all of one kind.
  explicit LoneEnvs(std::vector<std::unique_ptr<EnvGroup>> groups);

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return static_cast<int>(envs_.size()); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override;
  void step(const EnvActions& actions, const EnvArrays& out) override;
  [[nodiscard]] bool can_step_rows() const override { return true; }
  void step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) override;
  void set_progress(double share) override;
  [[nodiscard]] bool can_reward_goals() const override { return goal_rewards_of(*envs_.front().group) != nullptr; }
  void reward_goals(const GoalRows& rows) override { goal_rewards_of(*envs_.front().group)->reward_goals(rows); }
  [[nodiscard]] bool can_save() const override { return envs_.front().group->can_save(); }
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state, const EnvArrays& out) override;
  [[nodiscard]] bool can_render() const override { return envs_.front().group->can_render(); }
  void render(int env, Canvas& canvas) const override;
  void watch_ends(std::function<void(int env)> at_end) override;

 private:
  struct One {
    std::unique_ptr<EnvGroup> group;
    StepsByRow* by_row = nullptr;  // `group`, where it can end episodes
    std::uint64_t seed = 0, resets = 0;
  };
  void step_one(std::size_t e, RowStep kind, const EnvActions& actions, const EnvArrays& out);
  // Truncates the episode that the last step did not end.
  void cut_short(std::size_t e, const EnvArrays& part);
  // The arrays, and the actions, of environment e alone. The arrays are part_ and valid until the next call.
  const EnvArrays& part(std::size_t e, const EnvArrays& all);
  [[nodiscard]] EnvActions part(std::size_t e, const EnvActions& all) const;

  std::vector<One> envs_;
  const Spec spec_;
  EnvArrays part_;
  std::function<void(int env)> at_end_;
};

}  // namespace tandem::rl
