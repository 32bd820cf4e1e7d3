// rl/algo/ppo/group_rollout.h: how the env groups of a replica make their fragments for an update: all steps, until a
// rule ends it (pipeline/straggler_rule.h), as many as another run recorded, or until episodes end.
//
// Where fragments may end early, the groups of a replica go step by step together, so that none of them is always the
// last to come. What a group sees does not depend on that.
//
// Threads: single-thread, the replica's; windows() also between updates. Blocking: collect() takes as long as the
// environments do, and never waits for another replica: a rule decides by what the board says at that moment.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/concurrency/progress_board.h"
#include "tandem/metrics/window_stat.h"
#include "tandem/pipeline/straggler_rule.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/complete_episodes.h"
#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {

/// A record makes a run repeatable: groups then end where they ended in the run that wrote it.
struct StragglerSetup {
  pipeline::StragglerOptions options{};
  /// Steps of each group, by update: what options.policy is not asked about. Empty: there is no record to follow.
  std::vector<std::vector<int>> recorded{};

  [[nodiscard]] bool may_end_early() const {
    return options.policy != pipeline::Stragglers::kWaitAll || !recorded.empty();
  }
};

/// An env group of the replica. The objects are not owned and must outlive the rollouts.
struct RolloutGroup {
  // Steps the environments.
  GroupWorker* worker = nullptr;
  // The worker itself where environments have one agent; null where it makes all steps at once.
  RolloutWorker* stepper = nullptr;
  // Wraps the worker where episodes are completed; else null.
  CompleteEpisodes* complete = nullptr;
  // The group's place on the board; nothing when the group rests.
  std::optional<int> unit = {};
};

/// How far one group came in a rollout.
/// A plain value: its bytes may travel between ranks.
struct GroupWindow {
  int steps = 0;  // 0: it rested
  // Rows of the fragment: the steps of its environments that count.
  int rows = 0;
  // Time from the rollout's begin to the group's last step.
  double seconds = 0;
};

class GroupRollout {
 public:
  /// `groups`: [first_group, ...) of the run. `board`: of all that do not rest; needed when the policy is not kWaitAll
  /// and nothing is recorded. A record says itself who rests: whose steps are 0. Episodes are completed under kWaitAll.
  GroupRollout(StragglerSetup setup, std::vector<RolloutGroup> groups, int first_group, int steps,
               const std::optional<ProgressBoard>& board);

  /// Makes the fragments of update `update`, counted from 0. Throws EnvError, and RunError when the record ends before.
  void collect(std::int64_t update, const Normalizers& frozen);
  /// Tells how long the learning after the rollout took, which some rules compare with the time that is saved.
  void learned(double seconds) { learn_seconds_.add(seconds); }

  /// One window for each group, of the last rollout.
  [[nodiscard]] std::span<const GroupWindow> windows() const { return windows_; }

 private:
  // rest() leaves a group out; the other two are collect() under a rule and after a record.
  void rest(std::size_t group);
  void collect_until_rule(std::int64_t update, const Normalizers& frozen);
  void collect_recorded(std::int64_t update, const Normalizers& frozen);

  const StragglerSetup setup_;
  const std::vector<RolloutGroup> groups_;
  const int first_group_;
  std::optional<ProgressBoard> board_;
  std::optional<pipeline::StragglerRule> rule_;
  // The mean of the last ten updates, since a single one may have been disturbed.
  WindowStat learn_seconds_{10};
  std::vector<GroupWindow> windows_;
};

}  // namespace tandem::rl
