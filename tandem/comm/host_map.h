// comm/host_map.h: tells which ranks of a run share a host, that is, can exchange through shared memory.
//
// All ranks compute the same map, since each has the same keys or the same list of all ranks.
//
// Threads: all; HostMap is immutable. Nothing here blocks.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace tandem::comm {

/// Identifies the host of a process. Processes with the same key can pass each other file descriptors: the key holds
/// the kernel's boot id, the network namespace (to which abstract sockets belong), the user namespace and the user.
struct HostKey {
  std::string key;   // empty when the system does not say
  std::string name;  // of the host, for people
};

/// The key of this process; `name` is that of its host.
[[nodiscard]] HostKey this_host(const std::string& name);

/// The ranks of one host.
struct Host {
  std::string name;
  std::vector<int> ranks;  // ascending
};

class HostMap {
 public:
  /// No host.
  HostMap() = default;
  /// Groups ranks by their keys, which are given by rank. Hosts are ordered by their first ranks. A rank without a key
  /// counts as the only one of its host.
  [[nodiscard]] static HostMap by_key(std::span<const HostKey> ranks);
  /// Takes the ranks of each host from the user's list; `names` are the host names by rank. Throws ConfigError unless
  /// each of the `names.size()` ranks is listed once.
  [[nodiscard]] static HostMap by_list(const std::vector<std::vector<int>>& ranks, std::span<const std::string> names);

  /// All hosts, in the order of their numbers, and how many there are.
  [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
  [[nodiscard]] int size() const { return static_cast<int>(hosts_.size()); }
  /// The number of a rank's host, and the rank's place among the ranks of that host.
  [[nodiscard]] int host_of(int rank) const { return places_[static_cast<std::size_t>(rank)].host; }
  [[nodiscard]] int local_rank(int rank) const { return places_[static_cast<std::size_t>(rank)].local_rank; }
  [[nodiscard]] const Host& host(int number) const { return hosts_[static_cast<std::size_t>(number)]; }
  /// Whether every host has one rank.
  [[nodiscard]] bool has_one_rank_each() const { return hosts_.size() == places_.size(); }

  /// Says why summing within each host first would give other bits than one tree over all ranks. Empty when the bits
  /// are the same: each host is then a whole subtree (nests() in base/summation_tree.h).
  [[nodiscard]] std::string obstacle() const;

  /// One line for logs and errors: "host 0 (gpu-a): ranks 0, 1; host 1 (gpu-b): ranks 2, 3, by boot id, ...".
  [[nodiscard]] std::string describe() const;

 private:
  struct Place {
    int host = 0, local_rank = 0;
  };
  HostMap(std::vector<Host> hosts, std::string why);

  std::vector<Host> hosts_;
  std::vector<Place> places_;  // by rank
  std::string why_;            // ends describe(): how the ranks were grouped
};

}  // namespace tandem::comm
