// rl/env/isolated/isolated_envs.h: a group whose environments live in a process of their own, which may crash, exit,
// leak or hang without the training's.
//
// The numbers are those of the same group in this process, and so are the bytes of save(): a run may go on with or
// without. Where there is a budget of restarts, the environments are RestartingEnvs in the worker, which asks this side
// before it makes one anew; and a worker that is lost is started again: the step counts as cut short in each of its
// environments, which begin new episodes with the seeds that a failure of each would give them. That is one failure of
// the budget. Where the worker was lost in a call in which it had made environments anew, nobody can tell any more
// which of them, so each counts as having failed that often, too: no episode is begun twice.
//
// The worker is started at the first call that needs it. Environments draw themselves where the worker says so: those
// of Python do that were asked for it (python/python_envs.h).
// Threads: single-thread, as every EnvGroup; a second thread keeps the process. Blocking: each call, until the worker
// has answered or the deadline of the options. A destructor ends the worker.
// Errors: EnvError when a worker is lost and no restart is left; ConfigError when it cannot be started.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/isolated/worker_link.h"
#include "tandem/rl/env/steps_by_row.h"

namespace tandem::rl {

class IsolatedEnvs final : public EnvGroup, public StepsByRow, public GoalRewards {
 public:
  /// `spec` is that of options.task.env. `budget`: null, every failure ends the run. Throws ConfigError when count < 1.
  IsolatedEnvs(Spec spec, int count, IsolationOptions options, std::shared_ptr<RestartBudget> budget);

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return static_cast<int>(held_->origins.size()); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override;
  void step(const EnvActions& actions, const EnvArrays& out) override;
  /// Starts the worker. Those of Python can that step environments one by one.
  [[nodiscard]] bool can_step_rows() const override;
  /// Where the worker is lost, environments that rest begin new episodes, too, as if they had just begun them.
  void step_rows(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override;
  /// The two halves of step(), and of step_rows(), between which other groups can begin theirs. No `which`: all step.
  /// Where begin_step() throws, there is nothing to end.
  void begin_step(std::span<const RowStep> which, const EnvActions& actions);
  void end_step(std::span<const RowStep> which, const EnvArrays& out);
  void set_progress(double share) override;
  /// Starts the worker.
  [[nodiscard]] bool can_reward_goals() const override;
  /// A worker that is lost here is started again and asked once more; the episodes under way are cut short.
  void reward_goals(const GoalRows& rows) override;
  [[nodiscard]] bool restarts() const override { return budget_ != nullptr; }
  /// Starts the worker.
  [[nodiscard]] bool can_save() const override;
  /// Empty where the worker was lost since the last step, or is lost here: it is started again, but its new episodes
  /// are not those whose steps the run has seen, so no state of theirs would let a run go on exactly.
  [[nodiscard]] std::vector<std::byte> save() const override;
  /// A failure here is thrown, as in RestartingEnvs.
  void load(std::span<const std::byte> state, const EnvArrays& out) override;
  /// Starts the worker.
  [[nodiscard]] bool can_render() const override;
  /// Also throws WorkerLost: nobody who draws pictures starts workers again.
  void render(int env, Canvas& canvas) const override;
  /// `at_end` is called behind the step, and render() shows the end then, which the worker has kept.
  void watch_ends(std::function<void(int env)> at_end) override { at_end_ = std::move(at_end); }

 private:
  // Observations and masks in memory of our own.
  struct Shown {
    std::vector<std::vector<std::byte>> leaves;
    std::vector<std::uint8_t> mask;
  };
  // The worker, which is null before it is needed and after it was lost, and what does not die with it. A struct behind
  // a pointer, since const members change it as well.
  struct Held {
    std::unique_ptr<WorkerLink> link = nullptr;
    std::vector<EnvOrigin> origins = {};
    double progress = 0;
    // The episodes that were under way have ended, and `fresh` is the begin of the next ones; no step has told so yet.
    bool is_cut_short = false;
    // Between begin_step() and end_step(): the worker makes a step.
    bool is_stepping = false;
    Shown fresh = {};
  };

  [[nodiscard]] std::size_t rows() const { return held_->origins.size(); }
  // The worker, which is started if there is none.
  WorkerLink& link() const;
  void begin_episodes() const;
  // Takes over how often environments were made anew in the last call. WorkerLost where that cannot be.
  void count_failures() const;
  // Starts workers until one has begun new episodes, each for one failure of the budget.
  void restart(std::string what) const;
  // Copy what the worker shows of some environments, and judge it: WorkerLost, after the worker was killed.
  struct Rows {
    std::size_t first = 0, count = 0;
  };
  [[nodiscard]] Rows all_rows() const { return {.first = 0, .count = rows()}; }
  void copy_shown(const Rows& its, const EnvArrays& out) const;
  void copy_step(const Rows& its, const EnvArrays& out) const;
  void copy_ends(const Rows& its, const EnvArrays& out) const;
  // Keeps what is shown, for the case that the next step is lost.
  void remember(const EnvArrays& out);
  void end_episodes(std::span<const RowStep> which, const EnvArrays& out);
  void show_fresh(const EnvArrays& out);
  // What the worker says of the goals that `input` has, as kRewardGoals says it.
  [[nodiscard]] std::vector<std::byte> told_of_goals(std::int64_t rows, std::span<const std::byte> input);
  void tell_ends(std::span<const RowStep> which, const EnvArrays& out);
  [[noreturn]] void blame(std::size_t env, const std::string& what) const;

  const Spec spec_;
  const IsolationOptions options_;
  const std::shared_ptr<RestartBudget> budget_;  // shared with the other groups of the run; may be null
  const RegionLayout layout_;
  WorkerTask task_;
  Shown seen_;  // what was shown last, which is final when a step is lost
  const std::unique_ptr<Held> held_ = std::make_unique<Held>();
  std::function<void(int env)> at_end_;  // of watch_ends()
  bool shows_end_ = false;
};

}  // namespace tandem::rl
