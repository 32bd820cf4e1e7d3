// rl/algo/ppo/group_rollout.h: which env groups make steps in an update, and how those of a replica make their
// fragments: all steps, until a rule ends it (pipeline/straggler_rule.h), as many as another run recorded, or until
// episodes end.
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
#include "tandem/rl/rollout/group_worker.h"

namespace tandem::rl {

/// Whether env groups make steps while ranks are missing.
enum class WhileMissing {
  kAllWork,    // those that are left step all of them
  kShareRests  // those of the missing ranks' share make no steps
};

/// Which groups make steps while some ranks are missing and the others do no more than their own share. Shards, and
/// with them env groups, belong to places in the summation tree, not to ranks: those that are left hold all of them. So
/// that none samples more than before, as many groups rest as the missing ranks' share: their environments stay where
/// they are, and their shards bring no rows. Those that are left have equally much to do, to one group. All ranks
/// compute the same answer from the same counts, so that nobody has to be told.
///
/// By group: its place among those that make steps; nothing when it rests. `replicas`: the groups of each replica that
/// is there, one after the other from 0. `present` of `all` ranks are there: that share of the groups works, rounded
/// down, but one a replica at least. From the replica with the most that work rests its last, until they are so many.
/// Throws InvariantError when there is no replica, or `present` is not within 1 .. `all`.
[[nodiscard]] std::vector<std::optional<int>> working_groups(std::span<const Range> replicas, int present, int all);

/// A record makes a run repeatable: groups then end where they ended in the run that wrote it.
struct StragglerSetup {
  pipeline::StragglerOptions options{};
  /// Steps of each group, by update: what options.policy is not asked about. Empty: there is no record to follow.
  std::vector<std::vector<int>> recorded{};

  [[nodiscard]] bool may_end_early() const {
    return options.policy != pipeline::Stragglers::kWaitAll || !recorded.empty();
  }
};

/// An env group of the replica. The worker is not owned and must outlive the rollouts.
struct RolloutGroup {
  GroupWorker* worker = nullptr;
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

  /// Told before a rollout; see GroupWorker.
  void set_progress(double share) const {
    for (const RolloutGroup& group : groups_) group.worker->set_progress(share);
  }
  /// Makes the fragments of update `update`, counted from 0. `frozen`: by seat. Throws EnvError, and RunError when the
  /// record ends before.
  void collect(std::int64_t update, std::span<const Normalizers> frozen);
  /// Tells how long the learning after the rollout took, which some rules compare with the time that is saved.
  void learned(double seconds) { learn_seconds_.add(seconds); }

  /// One window for each group, of the last rollout.
  [[nodiscard]] std::span<const GroupWindow> windows() const { return windows_; }

 private:
  void collect_all(std::int64_t update, std::span<const Normalizers> frozen);
  void rest(std::size_t group);
  [[nodiscard]] bool ends(std::size_t group, std::int64_t update);

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
