// rl/env/isolated/several_workers.h: a group whose environments are divided among several worker processes, which step
// at the same time.
//
// Environment e is the same in any number of workers, so the numbers do not depend on it. A worker that is lost costs
// the episodes of its own environments. It is for environments whose states cannot be saved.
//
// Threads, blocking and errors: as IsolatedEnvs; each worker has a deadline of its own. Where several workers fail in a
// call, the first one's error is thrown, after all have answered.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/isolated/isolated_envs.h"

namespace tandem::rl {

class SeveralWorkers final : public EnvGroup, public StepsByRow, public GoalRewards {
 public:
  /// `count` environments in `workers` processes, as even as can be; no process is without any. Throws as IsolatedEnvs.
  SeveralWorkers(const Spec& spec, int count, int workers, const IsolationOptions& options,
                 const std::shared_ptr<RestartBudget>& budget);

  [[nodiscard]] const Spec& spec() const override { return parts_.front().group->spec(); }
  [[nodiscard]] int size() const override;
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override;
  void step(const EnvActions& actions, const EnvArrays& out) override { step_some({}, actions, out); }
  /// All workers are of one kind, so the first answers for all.
  [[nodiscard]] bool can_step_rows() const override { return parts_.front().group->can_step_rows(); }
  void step_rows(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override;
  void set_progress(double share) override;
  /// The first worker answers.
  [[nodiscard]] bool can_reward_goals() const override { return parts_.front().group->can_reward_goals(); }
  void reward_goals(const GoalRows& rows) override { parts_.front().group->reward_goals(rows); }
  [[nodiscard]] bool can_save() const override { return false; }
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state, const EnvArrays& out) override;
  [[nodiscard]] bool can_render() const override { return parts_.front().group->can_render(); }
  void render(int env, Canvas& canvas) const override;
  void watch_ends(std::function<void(int env)> at_end) override;

 private:
  // A worker, and the first of its environments.
  struct Part {
    std::unique_ptr<IsolatedEnvs> group;
    std::size_t first = 0;
  };
  // A step of the environments that `which` says; of all where it is empty.
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out);
  // The arrays, and the actions, of a part. The arrays are part_ and valid until the next call.
  const EnvArrays& arrays_of(const Part& part, const EnvArrays& all);
  [[nodiscard]] EnvActions actions_of(const Part& part, const EnvActions& all) const;

  std::vector<Part> parts_;
  EnvArrays part_;
};

/// A group in `workers` processes, or in as many as it has environments.
[[nodiscard]] std::unique_ptr<EnvGroup> in_workers(const Spec& spec, int count, int workers,
                                                   const IsolationOptions& options,
                                                   const std::shared_ptr<RestartBudget>& budget);

}  // namespace tandem::rl
