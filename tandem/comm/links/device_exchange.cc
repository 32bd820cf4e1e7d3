#include "tandem/comm/links/device_exchange.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <functional>

#include "tandem/base/summation_tree.h"

namespace tandem::comm {
namespace {

// Blocks the host until the device has done what its current stream holds.
void await_device(const at::Device& device) {
  c10::Event done(device.type());
  done.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  done.synchronize();
}

}  // namespace

// Reduce-scatter by one exchange of parts, the sum of the own part along the tree, and an all-gather of the sums.
void DeviceExchange::all_reduce(const at::Tensor& flat) {
  const std::vector<at::Tensor> parts = flat.tensor_split(size_);
  const at::Tensor& mine = parts[static_cast<std::size_t>(rank_)];
  std::vector<at::Tensor> theirs;
  for (int rank = 0; rank < size_; ++rank) theirs.push_back(rank == rank_ ? mine : at::empty_like(mine));
  swap(parts, theirs);
  const at::Tensor sum = tree_sum(
      Range{0, size_}, [&](int rank) { return theirs[static_cast<std::size_t>(rank)]; }, std::plus<>());
  at::Tensor(mine).copy_(sum);
  swap(std::vector<at::Tensor>(parts.size(), mine), parts);
  await_device(flat.device());
}

void DeviceExchange::broadcast(const at::Tensor& flat, int root) {
  const at::Tensor none = flat.flatten().narrow(0, 0, 0);
  std::vector<at::Tensor> out(static_cast<std::size_t>(size_), none), in = out;
  if (rank_ == root) {
    out.assign(out.size(), flat);
  } else {
    in[static_cast<std::size_t>(root)] = flat;
  }
  swap(out, in);
  await_device(flat.device());
}

std::vector<at::Tensor> DeviceExchange::all_gather(const at::Tensor& mine, const std::vector<std::int64_t>& counts) {
  std::vector<at::Tensor> all;
  for (const std::int64_t count : counts) all.push_back(at::empty({count}, mine.options()));
  all[static_cast<std::size_t>(rank_)].copy_(mine.flatten());
  swap(std::vector<at::Tensor>(all.size(), mine), all);
  await_device(mine.device());
  return all;
}

void DeviceExchange::swap(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) {
  backend_.startCoalescing();
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    if (peer == rank_) continue;
    std::vector<at::Tensor> from{in[index]}, to{out[index]};
    if (from.front().numel() > 0) (void)backend_.recv(from, peer, 0);
    if (to.front().numel() > 0) (void)backend_.send(to, peer, 0);
  }
  const auto work = backend_.endCoalescing();
  if (work) work->wait();  // for the stream; the host goes on
}

}  // namespace tandem::comm
