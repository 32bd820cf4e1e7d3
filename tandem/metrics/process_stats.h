// metrics/process_stats.h: memory and times of this process, as the system counts them.
//
// Threads: all. Throws RunError where /proc cannot be read.
#pragma once

namespace tandem {

/// The largest resident memory so far, in MB (10^6 bytes).
[[nodiscard]] double peak_rss_mb();

/// Seconds since the process started, the loading of libraries included. The system counts in ticks of 10 ms.
[[nodiscard]] double seconds_since_process_start();

/// Seconds of processor time of the calling thread since it started. A sleeping wait takes none; spinning does.
[[nodiscard]] double thread_cpu_seconds();

}  // namespace tandem
