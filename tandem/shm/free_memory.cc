#include "tandem/shm/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace tandem::shm {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// Returns the number in a file; nothing where the file says "max" or does not exist.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// Returns the number behind `word` at the start of a line: "MemAvailable: 123 kB", "inactive_file 456".
std::optional<std::uint64_t> number_behind(const fs::path& file, const std::string& word) {
  std::ifstream in(file);
  for (std::string first, rest; in >> first; std::getline(in, rest)) {
    std::uint64_t number = 0;
    if (first == word && in >> number) return number;
    in.clear();
  }
  return std::nullopt;
}

struct Names {
  const char *limit, *usage, *cache;
};
constexpr Names kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kVersion2{"memory.max", "memory.current", "inactive_file"};

// The bytes that are left of the limit of one control group. Files that were only read once (inactive) can be dropped,
// so they count as free.
std::uint64_t free_in(const fs::path& cgroup, const Names& names) {
  const auto limit = number_in(cgroup / names.limit), usage = number_in(cgroup / names.usage);
  if (!limit || !usage) return kUnlimited;
  const std::uint64_t cache = number_behind(cgroup / "memory.stat", names.cache).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

// The least of what is left in a control group and in all groups around it. A container may see its own group as the
// root, hence the root's limit too.
std::uint64_t free_up_to(const fs::path& root, fs::path cgroup, const Names& names) {
  std::uint64_t free = free_in(root, names);
  for (cgroup = cgroup.relative_path(); !cgroup.empty(); cgroup = cgroup.parent_path()) {
    free = std::min(free, free_in(root / cgroup, names));
  }
  return free;
}

}  // namespace

std::uint64_t free_memory(const fs::path& proc, const fs::path& cgroups) {
  std::uint64_t free = kUnlimited;
  if (const auto kib = number_behind(proc / "meminfo", "MemAvailable:")) free = *kib * 1024;
  std::ifstream lines(proc / "self" / "cgroup");  // "4:memory:/path" in version 1, "0::/path" in version 2
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path cgroup = line.substr(second + 1);
    if (controllers.empty()) free = std::min(free, free_up_to(cgroups, cgroup, kVersion2));
    if (controllers == "memory") free = std::min(free, free_up_to(cgroups / "memory", cgroup, kVersion1));
  }
  return free;
}

std::uint64_t free_memory() { return free_memory("/proc", "/sys/fs/cgroup"); }

}  // namespace tandem::shm
