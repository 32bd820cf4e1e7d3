// comm/world_board.h: a progress board of all ranks of a world.
//
// Ranks of one host have it in shared memory. Between hosts the first rank of each carries what its host's units have
// posted through the world's store, some hundred times a second, on a thread of its own.
#pragma once
#include "tandem/base/summation_tree.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/progress_board.h"

namespace tandem::comm {

/// Collective: all ranks of `world` call it, with the same number of units, each with those that it posts for. Waits
/// until all have, within `limits`. Throws ConfigError when ranks post for the same unit or give other numbers, and as
/// meeting does. The world outlives the board and all its copies. Should the store be lost, the board goes on without
/// news from other hosts: the ranks themselves find out by their group.
[[nodiscard]] ProgressBoard open_board(World& world, int units, Range mine, const Limits& limits);

}  // namespace tandem::comm
