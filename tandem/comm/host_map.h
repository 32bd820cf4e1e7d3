// comm/host_map.h: which ranks of a run share a host, that is, can reach each other through shared memory.
//
// Threads: all; HostMap is immutable.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace tandem::comm {

/// What a process says of where it is. Processes with the same key can pass each other descriptors: the kernel's boot,
/// the network namespace (abstract sockets belong to it), the user namespace and the user.
struct HostKey {
  std::string key;   // empty when the system does not say
  std::string name;  // of the host, for people
};

[[nodiscard]] HostKey this_host(const std::string& name);

struct Host {
  std::string name;
  std::vector<int> ranks;  // ascending
};

class HostMap {
 public:
  /// Hosts come in the order of their first ranks. A rank without a key is on a host of its own.
  [[nodiscard]] static HostMap by_key(std::span<const HostKey> ranks);
  /// The ranks of each host, as somebody said. Throws ConfigError unless each of `names.size()` ranks is there once.
  [[nodiscard]] static HostMap by_list(const std::vector<std::vector<int>>& ranks, std::span<const std::string> names);

  [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
  [[nodiscard]] int size() const { return static_cast<int>(hosts_.size()); }
  /// The number of the host that has the rank, and the rank's place on it.
  [[nodiscard]] int host_of(int rank) const { return places_[static_cast<std::size_t>(rank)].host; }
  [[nodiscard]] int local_rank(int rank) const { return places_[static_cast<std::size_t>(rank)].local_rank; }
  [[nodiscard]] const Host& host(int number) const { return hosts_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] bool has_one_rank_each() const { return hosts_.size() == places_.size(); }

  /// Why sums within each host first would be other sums than those of all ranks in one tree. Empty when they are not.
  [[nodiscard]] std::string obstacle() const;

  /// "host 0 (gpu-a): ranks 0, 1; host 1 (gpu-b): ranks 2, 3, by boot id, ...".
  [[nodiscard]] std::string describe() const;

 private:
  struct Place {
    int host = 0, local_rank = 0;
  };
  HostMap(std::vector<Host> hosts, std::string why);

  std::vector<Host> hosts_;
  std::vector<Place> places_;  // by rank
  std::string why_;
};

}  // namespace tandem::comm
