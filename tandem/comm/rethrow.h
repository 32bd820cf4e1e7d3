// comm/rethrow.h: adds what a layer above knows to an error of a group.
//
// Threads: all.
#pragma once
#include <functional>
#include <string>

namespace tandem::comm {

/// Rethrows the RunError that is being handled as the same kind of error, with `before` in front of its message and the
/// lost peer as `rank_of` says. Whatever else is being handled goes on as it is.
[[noreturn]] void rethrow_with(
    const std::string& before, const std::function<int(int)>& rank_of = [](int rank) { return rank; });

}  // namespace tandem::comm
