// comm/links/device_exchange.h: passes large payloads between devices, by a backend that reaches their memory (NCCL).
// Internal.
//
// Sums have the association of every other group. Each addition rounds to the tensors' own type, as in the local
// group's sums on devices.
//
// Threads: one. Blocking: until the device has done the work, or another thread aborts the backend. Errors: whatever
// the backend throws.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace tandem::comm {

/// `backend` is not owned. All members call the same operations in the same order.
class DeviceExchange {
 public:
  DeviceExchange(c10d::Backend& backend, int rank, int size) : backend_(backend), rank_(rank), size_(size) {}

  /// As Group::start_all_reduce() and Group::broadcast(), on this rank's device.
  void all_reduce(const at::Tensor& flat);
  void broadcast(const at::Tensor& flat, int root);
  /// Returns the flat tensors of all ranks. `counts`: the number of elements of each, by rank.
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const std::vector<std::int64_t>& counts);

 private:
  // Sends out[i] to member i and receives in[i] from it, all at once. Skips empty tensors and this member's own.
  void swap(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in);

  c10d::Backend& backend_;
  const int rank_, size_;
};

}  // namespace tandem::comm
