#include "tandem/comm/store/slurm_node_list.h"

namespace tandem::comm {

std::optional<std::string> first_host(std::string_view node_list) {
  std::string host;
  while (!node_list.empty() && node_list.front() != ',') {
    if (node_list.front() != '[') {
      if (node_list.front() == ']') return std::nullopt;
      host += node_list.front();
      node_list.remove_prefix(1);
      continue;
    }
    const std::size_t end = node_list.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view ranges = node_list.substr(1, end - 1);
    const std::string_view first = ranges.substr(0, ranges.find_first_of(",-"));
    if (first.empty()) return std::nullopt;
    host += first;
    node_list.remove_prefix(end + 1);
  }
  if (host.empty()) return std::nullopt;
  return host;
}

}  // namespace tandem::comm
