// comm/links/c10d_backends.h: makes c10d's backends, Gloo and NCCL. Internal.
//
// Only gloo_backend.cc includes Gloo's headers, and only tandem/comm/nccl/ those of NCCL. The latter is a library of
// its own, libtandem_nccl.so, since it needs LibTorch's CUDA part; both are loaded when a program asks for NCCL
// (docs/decisions/0011).
//
// Threads: all. Blocking: make_*_backend() connects to all ranks, which call it at the same time. Errors: ConfigError
// when the build or the machine lacks something; RunError when ranks cannot connect.
#pragma once
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tandem::comm {

struct GlooOptions {
  c10::intrusive_ptr<c10d::Store> store;  // a part of the run's store that this group alone uses
  int rank = 0, size = 1;
  std::string network = {};              // the name of an interface, or an address of this host
  std::chrono::milliseconds patience{};  // the time limit for connecting to one peer
};

/// Connects every rank with every other over TCP. Gloo's threads inherit the caller's signal mask.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const GlooOptions& options);

struct NcclOptions {
  c10::intrusive_ptr<c10d::Store> store;  // a part of the run's store that this group alone uses
  int rank = 0, size = 1;
  int device_index = 0;  // the CUDA device of this rank
};

/// Throws ConfigError when the build has no NCCL, or when CUDA or libtandem_nccl.so cannot be loaded.
void require_nccl();

/// Calls require_nccl() and connects the ranks' devices.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const NcclOptions& options);

/// The function that libtandem_nccl.so exports as kNcclSymbol. The caller owns the backend.
using MakeNccl = c10d::Backend*(const NcclOptions& options);
inline constexpr const char* kNcclLibrary = "libtandem_nccl.so";
inline constexpr const char* kNcclSymbol = "tandem_make_nccl_backend";

}  // namespace tandem::comm
