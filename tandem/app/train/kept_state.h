// app/train/kept_state.h: the state of a run after its last complete update, which every rank keeps in memory: what a
// run goes on from when ranks have died, or when one has come.
//
// It is what a checkpoint holds, so it loads on any number of ranks, with the same numbers afterwards.
//
// Threads: single-thread.
//
// Ownership: the program owns the object beyond a single meeting of ranks, so it survives the groups, learners and
// records that are rebuilt after a loss. It costs as much memory as the run's state.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "tandem/app/train/run_checkpoint.h"
#include "tandem/learner/ranks.h"
#include "tandem/learner/state_parts.h"

namespace tandem::app {

struct KeptState {
  std::int64_t updates = -1;  // -1: there is none
  learner::StateParts parts{};
  RunProgress progress{};
  /// A line of metrics.jsonl for this update, without its end. Whoever leads writes it when all have kept the update,
  /// if one is due, and may die before; the last update of a run has one always. Empty before the first update.
  std::string line{};
  /// Whether it is time to meet anew, since somebody waits to join. From any thread.
  std::function<bool()> someone_waits = [] { return false; };

  [[nodiscard]] bool exists() const { return updates >= 0; }
};

/// Collective: the root's line; what others give is not looked at. Blocks until all ranks have called it. Throws
/// PeerLost or DeadlineExceeded as Ranks does.
[[nodiscard]] std::string line_from(const learner::Ranks& ranks, int root, const std::string& roots);

/// Collective: all ranks get the state of those that have made the most updates. Throws RunError when none has any.
/// Ranks differ when a loss came before all had kept an update, or when a rank has just come. `kept` is unchanged when
/// a rank is lost before all has arrived.
void share_newest(const learner::Ranks& ranks, KeptState& kept);

}  // namespace tandem::app
