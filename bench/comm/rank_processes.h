// bench/comm/rank_processes.h: times sums between ranks, each a process of its own, in a group of a host or over TCP.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "bench/timing.h"
#include "tandem/concurrency/limits.h"

namespace tandem::bench {

enum class Transport { kHost, kTcp };

/// Each wait of the ranks ends within a minute.
[[nodiscard]] inline Limits within_a_minute() {
  return {.deadline = Deadline::after(std::chrono::minutes(1)), .stop = {}};
}

/// Forks `ranks` processes that sum vectors of `bytes` bytes in the group's memory, and returns the seconds that the
/// slowest of them took, for each sum. Throws RunError when a sum is wrong or a rank fails. Single-thread: nothing
/// else may run in this process.
[[nodiscard]] std::vector<double> time_between_processes(Transport transport, int ranks, std::int64_t bytes,
                                                         double seconds, Size size);

}  // namespace tandem::bench
