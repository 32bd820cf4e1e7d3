// comm/world_board.h: a progress board of all ranks of a world.
//
// Ranks of one host have it in shared memory. Between hosts the first rank of each carries what its host's units have
// posted through the world's store, on a thread of its own.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "tandem/base/summation_tree.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/progress_board.h"

namespace tandem::comm {

struct BoardOptions {
  std::chrono::milliseconds every{5};                        // from one to the next that hosts send each other
  std::function<void(const std::string& why)> on_loss = {};  // called once, on the thread that carries them
};

/// Collective: all ranks of `world` call it, with the same number of units, each with those that it posts for. Waits
/// until all have, within `limits`. Throws ConfigError when ranks post for the same unit or give other numbers, and as
/// meeting does. The world outlives the board and all its copies. Should the store be lost, the board goes on without
/// news from other hosts, as if their units did nothing more, and `options.on_loss` is told.
[[nodiscard]] ProgressBoard open_board(World& world, int units, Range mine, const Limits& limits,
                                       BoardOptions options = {});

}  // namespace tandem::comm
