#include "tandem/concurrency/cores.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "tandem/base/text.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Two numbers, of which the first is "max" (version 2) or negative (version 1) where there is no limit.
double ratio_of(const std::string& time, const std::string& period) {
  const std::optional<double> of = parse_number<double>(time), by = parse_number<double>(period);
  const bool is_limit = of && by && *of > 0 && *by > 0;
  return is_limit ? *of / *by : std::numeric_limits<double>::infinity();
}

double quota_of(const ControlGroup& group) {
  if (group.version == GroupVersion::kOne)
    return ratio_of(first_line(group.folder / "cpu.cfs_quota_us"), first_line(group.folder / "cpu.cfs_period_us"));
  std::istringstream line(first_line(group.folder / "cpu.max"));
  std::string time, period;
  line >> time >> period;
  return ratio_of(time, period);
}

int count_bound() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more cores than a cpu_set_t holds
}

}  // namespace

int UsableCores::whole() const {
  if (quota >= bound) return std::max(1, bound);
  return std::max(1, static_cast<int>(std::floor(quota + 0.5)));
}

std::string UsableCores::describe() const {
  const std::string cores = concat(bound, bound == 1 ? " core" : " cores");
  return quota < bound ? concat(quota, " of ", cores, " (a quota of processor time)") : cores;
}

UsableCores usable_cores(const KernelFiles& files) {
  UsableCores cores{.bound = count_bound()};
  for (const ControlGroup& group : control_groups("cpu", files)) cores.quota = std::min(cores.quota, quota_of(group));
  return cores;
}

const UsableCores& usable_cores_at_start() {
  static const UsableCores cores = usable_cores();
  return cores;
}

std::vector<int> cores_in(std::string_view text) {
  std::vector<int> cores;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::optional<int> first = parse_number<int>(part.substr(0, dash));
    const std::optional<int> last = dash == std::string_view::npos ? first : parse_number<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE) return {};
    for (int core = *first; core <= *last; ++core) cores.push_back(core);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return cores;
}

std::vector<std::vector<int>> cores_by_node(const cpu_set_t& bound, const KernelFiles& files) {
  std::vector<std::vector<int>> nodes;
  for (const int node : cores_in(first_line(files.nodes / "online"))) {
    std::vector<int> cores = cores_in(first_line(files.nodes / concat("node", node) / "cpulist"));
    std::erase_if(cores, [&](int core) { return !CPU_ISSET(core, &bound); });
    if (!cores.empty()) nodes.push_back(std::move(cores));
  }
  if (nodes.size() < 2) nodes.clear();
  return nodes;
}

std::vector<std::vector<int>> nodes_of_threads(int threads, const std::vector<std::vector<int>>& nodes) {
  const auto count = static_cast<std::size_t>(threads);
  std::vector<std::vector<int>> all;
  if (nodes.size() < 2 || count < nodes.size()) return all;
  for (std::size_t thread = 0; thread < count; ++thread) all.push_back(nodes[thread * nodes.size() / count]);
  return all;
}

bool bind_this_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace tandem
