// shm/free_memory.h: how much memory this process can still take.
#pragma once
#include <cstdint>
#include <filesystem>

namespace tandem::shm {

/// Bytes that are free on the host, or within the limit of this process's container where that is less (cgroup version
/// 1 or 2). Memory that the kernel gives back on demand counts as free. An estimate: others take memory meanwhile.
[[nodiscard]] std::uint64_t free_memory();

/// The same with the files that the kernel shows below other roots. For tests.
[[nodiscard]] std::uint64_t free_memory(const std::filesystem::path& proc, const std::filesystem::path& cgroups);

}  // namespace tandem::shm
