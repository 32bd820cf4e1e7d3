// rl/replay/replay_mapping.h: one piece of memory for all segments of a replay part, anonymous or in a file.
//
// Threads: all; the memory lives as long as somebody holds the pointer, and goes with the last one.
// Errors: RunError when memory cannot be had; CheckpointError, which names the path, when a file cannot.
#pragma once
#include <cstddef>
#include <memory>

#include "tandem/rl/replay/replay_options.h"

namespace tandem::rl {

/// `bytes` zero bytes, at least 1, aligned to pages. Anonymous memory becomes resident as it is written. A file has its
/// disk space before this returns, so that a full disk is an error here and not a signal later; writing it may block.
/// A named file is made anew where it is empty or was made by this function; any other is left alone and an error.
[[nodiscard]] std::shared_ptr<std::byte> map_replay(const ReplayMemory& where, std::size_t bytes);

}  // namespace tandem::rl
