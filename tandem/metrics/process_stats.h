// metrics/process_stats.h: what the system says about this process.
//
// Threads: all. Throws RunError where /proc cannot be read.
#pragma once

namespace tandem {

/// The most memory that was resident at once, in MB (10^6 bytes).
[[nodiscard]] double peak_rss_mb();

/// Since the process started, loading of libraries included. The system counts in ticks of 10 ms.
[[nodiscard]] double seconds_since_process_start();

/// Processor time of the calling thread since it started. Waiting asleep costs none, spinning does.
[[nodiscard]] double thread_cpu_seconds();

}  // namespace tandem
