// comm/links/linked_member.h: the member of a group across a network, and NCCL, which may carry what is on its devices.
// Internal to comm/links.
//
// Only tandem/comm/nccl/ includes NCCL's headers. It is a library of its own, libtandem_nccl.so, since it needs
// LibTorch's CUDA part; both are loaded when a program asks for NCCL (docs/decisions/0011).
//
// Threads: all. Blocking: the makers of backends connect to all ranks, which call them at the same time. Errors:
// ConfigError when the build or the machine lacks something; RunError when ranks cannot connect.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/net/wire.h"

namespace tandem::comm {

/// The function that libtandem_nccl.so exports as kNcclSymbol. It connects the ranks' CUDA devices. The
/// caller owns the backend.
using MakeNccl = c10d::Backend*(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, int device_index);
inline constexpr const char* kNcclLibrary = "libtandem_nccl.so";
inline constexpr const char* kNcclSymbol = "tandem_make_nccl_backend";

/// How messages name a member.
struct MemberName {
  int rank = 0;         // the rank in the run
  std::string process;  // "process 77 on gpu-a"
};

/// The connections between the members, for this group alone.
struct LinkedMemberOptions {
  int rank = 0;
  std::vector<MemberName> names = {};                     // all members' names, by rank
  std::vector<net::Wire::Ends> ends = {};                 // by rank, for what is in this host's memory
  c10::intrusive_ptr<c10d::Backend> device_backend = {};  // sends from devices (NCCL); null: through the host's memory
};

/// Does not wait. The group's threads, blocking and errors are those of network_group.h.
[[nodiscard]] std::unique_ptr<Group> make_linked_member(LinkedMemberOptions options);

}  // namespace tandem::comm
