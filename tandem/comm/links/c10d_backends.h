// comm/links/c10d_backends.h: makes c10d's backends, Gloo and NCCL, and the member of a group over them. Internal to
// comm/links/c10d_group.cc.
//
// Only gloo_backend.cc includes Gloo's headers, and only tandem/comm/nccl/ those of NCCL. The latter is a library of
// its own, libtandem_nccl.so, since it needs LibTorch's CUDA part; both are loaded when a program asks for NCCL
// (docs/decisions/0011).
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

namespace tandem::comm {

/// Connects every rank with every other over TCP. `network` is the name of an interface, or an address of this host;
/// `patience` the time limit for connecting to one peer. Gloo's threads inherit the caller's signal mask.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                                  int rank, int size, const std::string& network,
                                                                  std::chrono::milliseconds patience);

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

/// The connections between the members. Each backend is for this group alone.
struct LinkedMemberOptions {
  int rank = 0;
  std::vector<MemberName> names = {};                     // all members' names, by rank
  c10::intrusive_ptr<c10d::Backend> backend = {};         // sends from this host's memory (Gloo)
  c10::intrusive_ptr<c10d::Backend> device_backend = {};  // sends from devices (NCCL); null: through the host's memory
};

/// Does not wait. The group's threads, blocking and errors are those of c10d_group.h.
[[nodiscard]] std::unique_ptr<Group> make_linked_member(LinkedMemberOptions options);

}  // namespace tandem::comm
