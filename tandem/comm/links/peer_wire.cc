#include "tandem/comm/links/peer_wire.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace tandem::comm {
namespace {

std::vector<at::Tensor> bytes_at(const void* data, std::size_t bytes) {
  return {at::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte)};
}

}  // namespace

PeerWire::PeerWire(c10::intrusive_ptr<c10d::Backend> backend) : backend_(std::move(backend)) {}

C10dWork PeerWire::send(int peer, const void* from, std::size_t bytes, Tag tag) {
  std::vector<at::Tensor> payload = bytes_at(from, bytes);
  const BrokenPipeMask mask;
  const MutexLock lock(starting_);
  return backend_->send(payload, peer, static_cast<int>(tag));
}

C10dWork PeerWire::receive(int peer, void* to, std::size_t bytes, Tag tag) {
  std::vector<at::Tensor> payload = bytes_at(to, bytes);
  const BrokenPipeMask mask;  // a receive writes, too: Gloo tells the peer that it may send
  const MutexLock lock(starting_);
  return backend_->recv(payload, peer, static_cast<int>(tag));
}

void PeerWire::cut() noexcept { backend_.reset(); }

}  // namespace tandem::comm
