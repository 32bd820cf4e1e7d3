// comm/world_board.h: a progress board (concurrency/progress_board.h) of all ranks of a world: a 64-bit cell for each
// unit of work, which one rank posts to and all ranks read.
//
// Ranks of one host have the board in shared memory. Between hosts, the first rank of each host copies its host's cells
// to the world's store and the other hosts' cells from there, on a thread of its own. So cells of other hosts are late,
// by about BoardOptions::every.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "tandem/base/summation_tree.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/progress_board.h"

namespace tandem::comm {

struct BoardOptions {
  std::chrono::milliseconds every{5};                        // between two exchanges of a host with the others
  std::function<void(const std::string& why)> on_loss = {};  // called once if the store is lost, on the copying thread
};

/// Collective: all ranks of `world` call it, with the same number of `units`; `mine` are the units that this rank posts
/// for. Waits for all ranks, within `limits`. Throws ConfigError when two ranks post for the same unit or give
/// different numbers of units, the errors of Store::get() and of shm::meet(), and that of the world's group when a
/// failure closes it meanwhile. The world must outlive the board and all its copies. If the store is lost later, the
/// board keeps the last cells of other hosts, and `options.on_loss` is called.
[[nodiscard]] ProgressBoard open_board(World& world, int units, Range mine, const Limits& limits,
                                       BoardOptions options = {});

}  // namespace tandem::comm
