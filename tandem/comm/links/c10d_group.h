// comm/c10d_group.h: groups of ranks across a network, over LibTorch's c10d: Gloo (TCP), and NCCL between CUDA devices.
//
// Sums do not use c10d's own all-reduce, whose association depends on the backend and on the number of ranks: members
// exchange parts, each sums its own along the tree, and they are gathered again. Each member sends and receives about
// 2(n-1)/n times the payload of an all-reduce; up to 4 KiB travel with the message that announces the operation.
//
// Besides the member's thread there is one that executes what was started, in order, and one a peer that sleeps until
// a message comes: so a peer that dies, aborts or leaves is noticed at once, by every member.
//
// Errors name the operation, its number, the rank, and what each rank was last seen to begin. A peer that died or left:
// PeerLost; one that is stopped: DeadlineExceeded at the deadline. Destroying a member tells the others and waits for
// at most a fraction of a second.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

struct C10dGroupOptions {
  int rank = 0, size = 1;
  Store* store = nullptr;  // a part of its own, which all ranks share; used until the group is made, not afterwards
  /// The network to use: the name of an interface ("eth1") or an address of this host. Empty: the one by which this
  /// rank reaches the store; loopback when all ranks reach it so.
  std::string network = {};
  Limits limits = {};           // until all ranks must have come
  std::vector<int> names = {};  // what messages call the ranks: theirs in the run; empty: as they are counted here
};

/// What a build can do. Without c10d's own needs at build time, a group throws ConfigError that names them.
[[nodiscard]] bool has_gloo();
[[nodiscard]] bool has_nccl();

/// Tensors travel from and to this host's memory; those on devices by a copy of it.
/// Waits until all ranks have come. Throws ConfigError for impossible options or when the build has no Gloo,
/// DeadlineExceeded naming the ranks that are missing, and RunError when ranks cannot connect.
[[nodiscard]] std::unique_ptr<Group> make_gloo_group(const C10dGroupOptions& options);

/// The same, and CUDA tensors travel from device to device. Each rank has a device of its own. Needs both, since Gloo
/// carries announcements and small payloads. NCCL ends the process when a connection between devices breaks, unless
/// TORCH_NCCL_ASYNC_ERROR_HANDLING=0 is in the environment.
[[nodiscard]] std::unique_ptr<Group> make_nccl_group(const C10dGroupOptions& options, int device_index);

}  // namespace tandem::comm
