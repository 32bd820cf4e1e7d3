// rl/replay/replay_snapshot.h: a replay part as named pieces of bytes, for a checkpoint that another thread writes
// while the part goes on.
//
//   const ReplaySnapshot taken = part.snapshot();            // between two calls, on the part's thread: milliseconds
//   for (const ReplayPiece& piece : taken.pieces) {          // on any thread
//     if (piece.is_final && folder_has(piece.name)) continue;  // written with an earlier checkpoint
//     write(piece);
//   }
//
// Most pieces are full segments: blocks of steps in time order that nobody writes to any more. A snapshot shares them
// with the part and copies nothing of them. When the part needs the place of a segment that a snapshot still holds, it
// takes other memory; so drop snapshots once they are written.
//
// Threads: a snapshot is immutable and may be handed to any thread; it may outlive the part.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tandem::rl {

/// Bytes under a name: "obs", "action", "reward".
struct NamedBytes {
  std::string name;
  std::span<const std::byte> bytes;
};

/// One file of a checkpoint. Its name has lower-case letters, digits and '.', so that it can be part of a file's name:
/// "state", "steps.open", "steps.12", "ends.open", "ends.3".
struct ReplayPiece {
  std::string name;
  /// Whether the part will never give other bytes under this name. True within one history: a run that goes on from an
  /// older checkpoint makes segments of the same numbers anew, so files that no manifest names any more must not be
  /// taken for them.
  bool is_final = false;
  /// None is empty.
  std::vector<NamedBytes> arrays = {};
  /// Keeps the bytes alive; its type is the snapshot's own affair.
  std::shared_ptr<const void> memory = {};
};

/// All that restore() needs, "state" first, then segments, oldest first.
struct ReplaySnapshot {
  std::vector<ReplayPiece> pieces;

  /// Bytes of all pieces, and of those that are not final and so are written by each checkpoint.
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t bytes_written_each_time() const;
};

/// Gives the piece of a name as it was written, for ReplayPart::restore(); `is_final` of it does not matter. It is
/// called for "state" first and for one piece after the other, so one is in memory at a time. It throws CheckpointError
/// when there is none.
using ReadReplayPiece = std::function<ReplayPiece(const std::string& name)>;

}  // namespace tandem::rl
