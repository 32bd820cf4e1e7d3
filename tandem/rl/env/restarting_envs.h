// rl/env/restarting_envs.h: a group whose environments are made anew when they fail, instead of ending the run.
//
// An environment that throws, or returns values that its spec does not allow, is destroyed and made again, with a new
// episode. The step that failed counts as cut short: reward 0, truncated, and the last observation that was seen is the
// episode's last; its metrics are not known. Seeds of new episodes follow from the environment's seed and how often it
// failed, so equal failures give equal runs. An environment that hangs does not return; only a step watch ends such a
// run.
//
// Threads: single-thread, as every EnvGroup; a RestartBudget may be used by all threads at once. Making an environment
// must be possible on the thread that steps the group.
// Cost: every step copies the observations once more, for the case that the next step fails.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/goal_rewards.h"

namespace tandem::rl {

/// The number of failures that the environments of all groups that share it may have in a run. Groups on several
/// threads share one budget by a shared pointer; it lives as long as the last of them.
class RestartBudget {
 public:
  /// A limit of 0 makes every failure end the run.
  explicit RestartBudget(std::int64_t limit) : limit_(limit) {}
  virtual ~RestartBudget() = default;
  RestartBudget(const RestartBudget&) = delete;
  RestartBudget& operator=(const RestartBudget&) = delete;

  /// Counts one failure, which `what` describes. Returns false, and counts nothing, when there have been `limit`
  /// already. In a worker process the training is asked (isolated/env_worker.h).
  [[nodiscard]] virtual bool take(const std::string& what);
  /// The failures that are allowed, and those that there have been.
  [[nodiscard]] std::int64_t limit() const { return limit_; }
  [[nodiscard]] std::int64_t used() const;
  /// Returns a sentence for each failure since the last call, for the log. Each sentence is returned once, to whoever
  /// asks first.
  [[nodiscard]] std::vector<std::string> take_remarks();

 private:
  const std::int64_t limit_;
  mutable Mutex mutex_;
  std::int64_t used_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> remarks_ TANDEM_GUARDED_BY(mutex_);
};

/// Where the episodes of an environment come from: the seed of its last reset(), and how often it was made anew since
/// then.
struct EnvOrigin {
  std::uint64_t seed = 0, failures = 0;

  /// What the generator of the environment begins with.
  [[nodiscard]] std::uint64_t start_seed() const;
};

/// What a failure says that no restart follows, because the budget is used up.
[[nodiscard]] std::string no_restart_is_left(const std::string& what, std::int64_t limit);

/// A group that looks like the one that `make` makes, and lives on when environments fail.
class RestartingEnvs final : public EnvGroup, public GoalRewards {
 public:
  /// Makes a group of so many environments. It is called again, with a count of 1, for each restart, on the thread that
  /// steps the group.
  using Make = std::function<std::unique_ptr<EnvGroup>(int count)>;

  /// `count` environments, in groups of one. Throws ConfigError when count < 1, and what `make` throws.
  RestartingEnvs(Make make, int count, std::shared_ptr<RestartBudget> budget);

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return static_cast<int>(envs_.size()); }
  /// Sets the counts of failures back to 0, so that equal seeds give equal restarts. The budget stays as it is. Throws
  /// EnvError when the budget is used up.
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override;
  /// As reset(), of environments that were made anew before, as in a process that is gone.
  void reset_from(std::span<const EnvOrigin> origins, const EnvArrays& out);
  /// Of environment `env`, below size().
  [[nodiscard]] EnvOrigin origin(std::size_t env) const { return envs_[env].origin; }
  /// Throws EnvError with the failure when the budget is used up, and for actions outside their space.
  void step(const EnvActions& actions, const EnvArrays& out) override;
  void set_progress(double share) override {
    progress_ = share;
    for (One& env : envs_) env.group->set_progress(share);
  }
  [[nodiscard]] bool restarts() const override { return true; }
  /// All environments are of one kind, so the first answers for all.
  [[nodiscard]] bool can_save() const override { return envs_.front().group->can_save(); }
  [[nodiscard]] bool can_reward_goals() const override { return goal_rewards_of(*envs_.front().group) != nullptr; }
  /// A failure here is thrown: it is none of a step.
  void reward_goals(const GoalRows& rows) override { goal_rewards_of(*envs_.front().group)->reward_goals(rows); }
  /// The state holds the seeds and failures of all environments, but not what is left of the budget.
  [[nodiscard]] std::vector<std::byte> save() const override;
  /// A failure here is not restarted: it is thrown, as CheckpointError where the bytes do not fit.
  void load(std::span<const std::byte> state, const EnvArrays& out) override;

 private:
  friend bool is_of_its_kind(const EnvGroup& group, std::span<const std::byte> state);
  // One environment, in a group of its own so that it can be replaced alone.
  struct One {
    std::unique_ptr<EnvGroup> group;
    EnvOrigin origin = {};
    // By leaf: the last observation that was seen of it, which is final when the next step fails.
    std::vector<std::vector<std::byte>> seen = {};
  };
  // The version of the bytes of save(); a change of their layout needs the next number.
  static constexpr std::uint32_t kStateFormat = 1;

  // The arrays, and the actions, of environment e alone. The arrays are part_ and valid until the next call.
  const EnvArrays& part(std::size_t e, const EnvArrays& all);
  // Pointers that are null stay null.
  [[nodiscard]] EnvActions part(std::size_t e, const EnvActions& all) const;
  // Copies the observation that environment e shows now.
  void remember(std::size_t e, const EnvArrays& part);
  // Makes environment e anew after the failure that `what` describes.
  void restart(std::size_t e, const EnvArrays& part, std::string what);
  // Writes the end of the episode in which a step failed.
  void end_episode(const One& env, const EnvArrays& part) const;

  const Make make_;
  // Shared with the other groups of the run.
  const std::shared_ptr<RestartBudget> budget_;
  std::vector<One> envs_;
  const Spec spec_;
  double progress_ = 0;
  // The arrays that part() returns.
  EnvArrays part_;
};

/// Whether the group that saved `state` restarts() environments if and only if `group` does: else load() cannot read
/// it.
[[nodiscard]] bool is_of_its_kind(const EnvGroup& group, std::span<const std::byte> state);

}  // namespace tandem::rl
