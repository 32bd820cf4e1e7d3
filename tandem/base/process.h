// base/process.h: this process: its name in messages, and its memory and times as the system counts them.
//
// Threads: all.
#pragma once
#include <cstdint>
#include <string>

namespace tandem {

/// The host name that the system reports; empty when it reports none.
[[nodiscard]] std::string host_name();
/// Returns "process 77 on gpu-a".
[[nodiscard]] std::string process_name();

/// The largest resident memory so far, in MB (10^6 bytes). Throws RunError where /proc cannot be read.
[[nodiscard]] double peak_rss_mb();

/// The memory of the machine, in bytes, whatever is in use. A container may be allowed less.
[[nodiscard]] std::uint64_t machine_memory();

/// Lets this process have `needed` open files at a time: raises its own limit where that is lower, as far as the system
/// lets it. Throws RunError that names the limit where that is not far enough. Threads: all, but not two at a time.
void allow_open_files(std::uint64_t needed);

/// Seconds since the process started, the loading of libraries included. The system counts in ticks of 10 ms. Throws
/// RunError where /proc cannot be read.
[[nodiscard]] double seconds_since_process_start();

/// A moment by a clock that nobody can set: seconds since this machine started. Moments of other boots, or of other
/// machines, cannot be compared; `boot` tells them apart, and is empty where the system does not say.
struct BootTime {
  std::string boot;
  double seconds = 0;

  friend bool operator==(const BootTime&, const BootTime&) = default;
};
[[nodiscard]] BootTime time_since_boot();

/// Seconds of processor time of the calling thread since it started. A sleeping wait takes none; spinning does.
[[nodiscard]] double thread_cpu_seconds();

}  // namespace tandem
