// comm/device_exchange.h: payloads between devices, by a backend that reaches their memory (NCCL). Internal.
//
// Sums have the association of every other group; as in the local group's sums on devices, each addition rounds to the
// tensors' own type.
//
// Threads: one. Blocking: until the device has done it, or the backend is aborted by another thread. Errors: whatever
// the backend throws.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace tandem::comm {

class DeviceExchange {
 public:
  DeviceExchange(c10d::Backend& backend, int rank, int size) : backend_(backend), rank_(rank), size_(size) {}

  void all_reduce(const at::Tensor& flat);
  void broadcast(const at::Tensor& flat, int root);
  /// `counts` of elements, by rank.
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const std::vector<std::int64_t>& counts);

 private:
  // Sends out[i] to member i and receives in[i] from it; empty ones, and this member's own, stay.
  void swap(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in);

  c10d::Backend& backend_;
  const int rank_, size_;
};

}  // namespace tandem::comm
