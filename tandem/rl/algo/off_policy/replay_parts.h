// rl/algo/off_policy/replay_parts.h: the replay of each shard as parts of a checkpoint.
//
// Part "replay-K" has what changes from one checkpoint to the next: counts, streams, priorities, the segments that are
// being written, and segments so small that a file of their own would not pay. Each larger segment that is full is a
// part of its own, "replay-K.steps.12", whose bytes stay the same for as long as it is held. "replay-K" names them all.
//
// A checkpoint of an earlier build, which has all pieces in "replay-K", is read as well.
//
// Threads: single-thread. Memory: parts refer to the memory of the snapshot and keep it alive; of what is read, one
// segment is held at a time.
// Errors: CheckpointError that names the part.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "tandem/learner/state_parts.h"
#include "tandem/rl/replay/replay_snapshot.h"

namespace tandem::rl {

/// The name of the part that every shard has.
[[nodiscard]] std::string replay_part(int shard);

/// Appends the parts of a shard's replay, in the snapshot's own memory, but for those segments that `held` names.
void append_replay(int shard, const ReplaySnapshot& snapshot, const std::set<std::string>& held,
                   learner::StateParts& parts);

/// Names of the parts that hold full segments of a shard's replay, in the order in which restore() asks for them.
/// `part`: replay-K.
[[nodiscard]] std::vector<std::string> segments_of_replay(const model::NamedTensors& part);

/// Gives restore() the pieces of a shard's replay: what `part`, which outlives it, has, and else what `read` gives.
[[nodiscard]] ReadReplayPiece pieces_of_replay(int shard, const model::NamedTensors& part, learner::ReadPart read);

}  // namespace tandem::rl
