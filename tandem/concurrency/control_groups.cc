#include "tandem/concurrency/control_groups.h"

#include <fstream>
#include <string>

namespace tandem {
namespace {

namespace fs = std::filesystem;

void add_with_all_around(const fs::path& root, fs::path group, GroupVersion version, std::vector<ControlGroup>& all) {
  all.push_back({root, version});
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    all.push_back({root / group, version});
}

// Version 1 lists several controllers behind one another: "cpu,cpuacct".
bool lists(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == controller) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

// The folder of a hierarchy has the names of all its controllers, or a link has the name of the one.
fs::path hierarchy(const fs::path& root, const std::string& controllers, std::string_view controller) {
  std::error_code ignored;
  return fs::exists(root / controllers, ignored) ? root / controllers : root / controller;
}

}  // namespace

// A line is "4:cpu,cpuacct:/path" in version 1 and "0::/path" in version 2.
std::vector<ControlGroup> control_groups(std::string_view controller, const KernelFiles& files) {
  std::vector<ControlGroup> all;
  std::ifstream lines(files.proc / "self" / "cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty())
      add_with_all_around(files.control_groups, group, GroupVersion::kTwo, all);
    else if (lists(controllers, controller))
      add_with_all_around(hierarchy(files.control_groups, controllers, controller), group, GroupVersion::kOne, all);
  }
  return all;
}

}  // namespace tandem
