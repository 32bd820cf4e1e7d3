// learner/state_parts.h: brings the parts of a run's state from all ranks to all, and from the leader to all, so that a
// checkpoint needs no file system that ranks share.
//
// Every rank holds the whole of what it gathers in memory, once as bytes and once as tensors.
//
// Threads, blocking, errors: those of Ranks.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/learner/ranks.h"
#include "tandem/model/state_hash.h"

namespace tandem::learner {

/// Names with the tensors of each; a name is is_part_name() and so has no slash.
using StateParts = std::vector<std::pair<std::string, model::NamedTensors>>;

/// State for a checkpoint that another thread writes while the run goes on.
struct StateAside {
  StateParts parts;               // in memory that the run leaves alone
  std::vector<std::string> kept;  // parts of the checkpoint before, whose bytes are still those; not among `parts`
};

/// Called on the thread of the collective; it may block on a disk.
using ReadPart = std::function<model::NamedTensors(const std::string& name)>;

/// The parts of all ranks, in the order of the ranks. With a single rank, `mine` as they are.
[[nodiscard]] StateParts gather_parts(const Ranks& ranks, StateParts mine);

/// The parts of rank `root`. The argument of other ranks is ignored. Two broadcasts carry them: the length, and the
/// bytes.
[[nodiscard]] StateParts parts_from(const Ranks& ranks, int root, StateParts roots);

/// The parts that the leader's `read` gives for `names`, which are the same on all ranks; `read` of other ranks is not
/// called. An exception of `read` is thrown on the leader, and the others' waits end when it leaves.
[[nodiscard]] StateParts parts_from_leader(const Ranks& ranks, const std::vector<std::string>& names,
                                           const ReadPart& read);

/// The part called `name`. Throws CheckpointError when there is none.
[[nodiscard]] const model::NamedTensors& part_of(const StateParts& parts, std::string_view name);

}  // namespace tandem::learner
