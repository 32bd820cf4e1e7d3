// base/rethrow.h: adds the knowledge of an upper layer to an error that comes from a lower one.
//
//   try {
//     group.barrier(limits);
//   } catch (const Error&) {
//     rethrow_with("update 7: ");
//   }
//
// Threads: all. Call it within a catch clause only.
#pragma once
#include <functional>
#include <string>

namespace tandem {

/// Rethrows the Error that is being handled as the same kind of error, with `before` in front of its message. A
/// ConfigError gets `before` in front of each fault. A PeerLost gets the peer that `rank_of` returns for its own.
/// Subclasses that error.h does not list become the listed class above them; StalledCall becomes DeadlineExceeded. Any
/// other exception, such as std::bad_alloc, is rethrown as it is.
[[noreturn]] void rethrow_with(
    const std::string& before, const std::function<int(int)>& rank_of = [](int rank) { return rank; });

}  // namespace tandem
