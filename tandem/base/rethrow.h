// base/rethrow.h: adds what a layer above knows to an error.
//
// Threads: all.
#pragma once
#include <functional>
#include <string>

namespace tandem {

/// Rethrows the Error that is being handled as the same kind of error, with `before` in front of its message, or of
/// each of its faults, and the lost peer as `rank_of` says. Whatever else is being handled, such as std::bad_alloc,
/// goes on as it is.
[[noreturn]] void rethrow_with(
    const std::string& before, const std::function<int(int)>& rank_of = [](int rank) { return rank; });

}  // namespace tandem
