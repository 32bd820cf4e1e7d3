// concurrency/control_groups.h: the control groups that limit this process, as a container sets them.
//
//   for (const auto& group : control_groups("memory")) limit = std::min(limit, limit_in(group.folder, group.version));
//
// Threads: all. Blocks on nothing but reading the kernel's files. Without these files there are no groups.
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace tandem {

/// The two interfaces of the kernel have other names for the same limits.
enum class GroupVersion { kOne, kTwo };

struct ControlGroup {
  std::filesystem::path folder;
  GroupVersion version{};
};

/// Where the kernel shows its files; tests give folders of their own.
struct KernelFiles {
  std::filesystem::path proc = "/proc";
  std::filesystem::path control_groups = "/sys/fs/cgroup";
  std::filesystem::path nodes = "/sys/devices/system/node";
};

/// The groups of this process that `controller` ("cpu", "memory") may limit: its own and all around it. A container may
/// see its own group as the root, so the root belongs to them. A folder need not exist, nor hold a limit.
[[nodiscard]] std::vector<ControlGroup> control_groups(std::string_view controller, const KernelFiles& files = {});

}  // namespace tandem
