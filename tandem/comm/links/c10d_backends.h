// comm/links/c10d_backends.h: makes c10d's backends, Gloo and NCCL. Internal.
//
// Only gloo_backend.cc includes Gloo's headers. NCCL lies in a library of its own, libtandem_nccl.so, which needs
// LibTorch's CUDA part and is loaded with it: when somebody asks for it (docs/decisions/0011). The one source that
// includes NCCL's headers is tandem/comm/nccl/.
#pragma once
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tandem::comm {

struct GlooOptions {
  c10::intrusive_ptr<c10d::Store> store;  // with keys of its own
  int rank = 0, size = 1;
  std::string network = {};              // name of an interface, or an address of this host
  std::chrono::milliseconds patience{};  // with peers while connecting
};

/// Connects every rank with every other. Threads that it starts inherit the mask of signals.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const GlooOptions& options);

struct NcclOptions {
  c10::intrusive_ptr<c10d::Store> store;  // with keys of its own
  int rank = 0, size = 1;
  int device_index = 0;
};

/// Throws ConfigError when the build has none, or CUDA or the library cannot be loaded.
void require_nccl();

/// The same, and connects the devices.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const NcclOptions& options);

/// What libtandem_nccl.so offers under kNcclSymbol: a backend that the caller owns.
using MakeNccl = c10d::Backend*(const NcclOptions& options);
inline constexpr const char* kNcclLibrary = "libtandem_nccl.so";
inline constexpr const char* kNcclSymbol = "tandem_make_nccl_backend";

}  // namespace tandem::comm
