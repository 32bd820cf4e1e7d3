// shm/free_memory.h: how much memory this process can still take.
//
// Threads: all. Reads a few files of /proc and /sys; blocks on nothing else.
#pragma once
#include <cstdint>
#include <filesystem>

namespace tandem::shm {

/// Returns the bytes that are free on the host, or within the limit of this process's container where that is less
/// (cgroup version 1 or 2). Memory that the kernel gives back on demand counts as free. The result is an estimate,
/// since other processes take memory meanwhile. Without any file to read from it is the largest number.
[[nodiscard]] std::uint64_t free_memory();

/// Reads the files of the kernel below other roots. For tests.
[[nodiscard]] std::uint64_t free_memory(const std::filesystem::path& proc, const std::filesystem::path& cgroups);

}  // namespace tandem::shm
