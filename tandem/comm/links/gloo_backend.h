// comm/gloo_backend.h: makes c10d's Gloo. Internal; the one source that includes Gloo's headers is behind it.
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

}  // namespace tandem::comm
