// comm/links/network_group.h: groups of ranks across a network: over TCP, and over NCCL between CUDA devices.
//
// Any two members have connections of their own (net/wire.h). Each begins with a challenge (net/greeting.h): who is no
// member is turned away. Members of one host are connected by sockets that no other host reaches. What travels between
// hosts is not encrypted (docs/security.md).
//
// A sum is a reduce-scatter and an all-gather: members exchange parts, each member sums its part along the tree, and
// the sums are gathered. So its association does not depend on the network. Each member sends and receives about
// 2(n-1)/n times the payload. A payload of up to 4 KiB travels with the message that announces the operation.
//
// Threads: as group.h. Besides the member's thread, one thread executes the started collectives in order, one moves
// bytes, and one thread for each peer sleeps until a message from that peer comes. So every member notices at once when
// a peer dies, aborts or leaves. Blocking: as group.h; the destructor tells the others and waits at most a fraction of
// a second.
//
// Errors name the operation, its number, the rank, and the last operations of each rank: PeerLost for a peer that died
// or left, DeadlineExceeded for a peer that is stopped.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

struct NetworkGroupOptions {
  int rank = 0, size = 1;
  Store* store = nullptr;  // a part of the run's store for this group alone; not used after the group is made
  /// The network to use: the name of an interface ("eth1") or an address of this host. Empty: whichever reaches the
  /// others.
  std::string network = {};
  Limits limits = {};           // of the wait until all ranks have come
  std::vector<int> names = {};  // the ranks in the run, which messages name; empty: messages name the ranks here
};

/// Whether this build has NCCL. If not, make_nccl_group() throws a ConfigError that names what was missing at build
/// time.
[[nodiscard]] bool has_nccl();

/// Makes a group whose tensors travel between the hosts' memories; a tensor on a device is copied there and back.
/// Waits until all ranks have come. Throws ConfigError for impossible options, DeadlineExceeded, which names the
/// missing ranks, and RunError when ranks cannot connect.
[[nodiscard]] std::unique_ptr<Group> make_tcp_group(const NetworkGroupOptions& options);

/// Makes a group whose CUDA tensors travel from device to device, by NCCL. Each rank has a device of its own.
/// Announcements, small payloads and CPU tensors go over TCP. NCCL ends the process when a
/// connection between devices breaks, unless TORCH_NCCL_ASYNC_ERROR_HANDLING=0 is in the environment.
[[nodiscard]] std::unique_ptr<Group> make_nccl_group(const NetworkGroupOptions& options, int device_index);

}  // namespace tandem::comm
