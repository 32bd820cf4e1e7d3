#include "tandem/comm/host_map.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/summation_tree.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

std::string list(const std::vector<int>& ranks) { return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks); }

// Returns "net:[4026531840]", say: the kind and the inode of the namespace. Empty when /proc does not show it.
std::string namespace_of_kind(const char* kind) {
  std::error_code error;
  return std::filesystem::read_symlink(concat("/proc/self/ns/", kind), error).string();
}

}  // namespace

HostKey this_host(const std::string& name) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string network = namespace_of_kind("net"), users = namespace_of_kind("user");
  // Without these two nothing proves that a process with the same rest is on the same machine.
  if (boot.empty() || network.empty()) return {.key = "", .name = name};
  return {.key = concat(boot, " ", network, " ", users, " uid ", ::geteuid()), .name = name};
}

HostMap::HostMap(std::vector<Host> hosts, std::string why) : hosts_(std::move(hosts)), why_(std::move(why)) {
  std::size_t ranks = 0;
  for (const Host& host : hosts_) ranks += host.ranks.size();
  places_.resize(ranks);
  for (int number = 0; number < size(); ++number) {
    int local_rank = 0;
    for (const int rank : host(number).ranks) places_[static_cast<std::size_t>(rank)] = {number, local_rank++};
  }
}

HostMap HostMap::by_key(std::span<const HostKey> ranks) {
  std::vector<Host> hosts;
  std::map<std::string, std::size_t> of_key;
  bool is_unknown = false;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const HostKey& mine = ranks[static_cast<std::size_t>(rank)];
    is_unknown = is_unknown || mine.key.empty();
    const auto [place, is_new] = of_key.try_emplace(mine.key.empty() ? concat("rank ", rank) : mine.key, hosts.size());
    if (is_new) hosts.push_back({.name = mine.name, .ranks = {}});
    hosts[place->second].ranks.push_back(rank);
  }
  return {std::move(hosts),
          concat("by boot id, network namespace and user",
                 is_unknown ? "; a rank whose system does not tell these counts as a host of its own" : "")};
}

// Hosts may be listed in any order, and so may the ranks of each: both are sorted, so that all ranks number them alike.
HostMap HostMap::by_list(const std::vector<std::vector<int>>& ranks, std::span<const std::string> names) {
  std::vector<std::string> faults;
  std::vector<int> seen(names.size());
  std::vector<Host> hosts;
  for (const std::vector<int>& of_host : ranks) {
    if (of_host.empty()) faults.push_back(concat("hosts_by rank-list: host ", hosts.size(), " has no rank"));
    for (const int rank : of_host) {
      if (rank < 0 || rank >= std::ssize(names))
        faults.push_back(concat("hosts_by rank-list: rank ", rank, ": there are ranks 0 to ", std::ssize(names) - 1));
      else
        ++seen[static_cast<std::size_t>(rank)];
    }
    Host host{.name = "", .ranks = of_host};
    std::sort(host.ranks.begin(), host.ranks.end());
    hosts.push_back(std::move(host));
  }
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (seen[rank] != 1)
      faults.push_back(concat("hosts_by rank-list: rank ", rank, " is there ", seen[rank], " times, expected once"));
  }
  if (!faults.empty()) throw ConfigError(faults);
  for (Host& host : hosts) host.name = names[static_cast<std::size_t>(host.ranks.front())];
  std::sort(hosts.begin(), hosts.end(), [](const Host& a, const Host& b) { return a.ranks.front() < b.ranks.front(); });
  return {std::move(hosts), "by the given list"};
}

// Two conditions: the ranks of each host follow each other, and the hosts' sizes are those of subtrees.
std::string HostMap::obstacle() const {
  std::vector<int> sizes;
  for (const Host& host : hosts_) {
    const int first = host.ranks.front(), last = host.ranks.back();
    if (last - first + 1 != std::ssize(host.ranks)) {
      return concat("the ranks of ", host.name, " (", list(host.ranks),
                    ") do not follow each other; start them host by host");
    }
    sizes.push_back(static_cast<int>(host.ranks.size()));
  }
  if (nests(sizes)) return "";
  return concat("sums over ", joined(sizes, std::identity(), " + "), " ranks are not parts of the sum over all ",
                places_.size(), "; with equally many ranks on 1, 2, 4, 8 ... hosts they are");
}

std::string HostMap::describe() const {
  std::string text;
  for (int number = 0; number < size(); ++number) {
    text += concat(number == 0 ? "" : "; ", "host ", number, " (", host(number).name, "): ", list(host(number).ranks));
  }
  return concat(text, ", ", why_);
}

}  // namespace tandem::comm
