#include "tandem/comm/links/link_collective.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"
#include "tandem/base/summation_tree.h"

namespace tandem::comm {
namespace {

using shm::Operation;

// Blocks the host until the device has done what its current stream holds.
void await_device(const at::Device& device) {
  c10::Event done(device.type());
  done.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  done.synchronize();
}

// Passes large payloads between devices, by a backend that reaches their memory (NCCL). All members call the same
// operations in the same order. The device works on when they have returned.
// Sums have the association of every other group. Each addition rounds to the tensors' own type, as in the local
// group's sums on devices.
class DeviceExchange {
 public:
  DeviceExchange(c10d::Backend& backend, int rank, int size) : backend_(backend), rank_(rank), size_(size) {}

  // Reduce-scatter by one exchange of parts, the sum of the own part along the tree, and an all-gather of the sums.
  void all_reduce(const at::Tensor& flat) {
    const std::vector<at::Tensor> parts = flat.tensor_split(size_);
    const at::Tensor& mine = parts[static_cast<std::size_t>(rank_)];
    std::vector<at::Tensor> theirs;
    for (int rank = 0; rank < size_; ++rank) theirs.push_back(rank == rank_ ? mine : at::empty_like(mine));
    swap(parts, theirs);
    const at::Tensor sum = tree_sum(
        Range{0, size_}, [&](int rank) { return theirs[static_cast<std::size_t>(rank)]; }, std::plus<>());
    at::Tensor(mine).copy_(sum);
    swap(std::vector<at::Tensor>(parts.size(), mine), parts);
  }

  void broadcast(const at::Tensor& flat, int root) {
    const at::Tensor none = flat.flatten().narrow(0, 0, 0);
    std::vector<at::Tensor> out(static_cast<std::size_t>(size_), none), in = out;
    if (rank_ == root) {
      out.assign(out.size(), flat);
    } else {
      in[static_cast<std::size_t>(root)] = flat;
    }
    swap(out, in);
  }

  // `counts`: the number of elements of each rank.
  std::vector<at::Tensor> all_gather(const at::Tensor& mine, const std::vector<std::int64_t>& counts) {
    std::vector<at::Tensor> all;
    for (const std::int64_t count : counts) all.push_back(at::empty({count}, mine.options()));
    all[static_cast<std::size_t>(rank_)].copy_(mine.flatten());
    swap(std::vector<at::Tensor>(all.size(), mine), all);
    return all;
  }

 private:
  // Sends out[i] to member i and receives in[i] from it, all at once. Skips empty tensors and this member's own.
  void swap(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) {
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

  c10d::Backend& backend_;
  const int rank_, size_;
};

// Small: nothing can be summed while the first chunk is on its way, and nothing is left to sum while the last one is.
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 19;

}  // namespace

PartExchange::PartExchange(PeerLinks& links, std::uint64_t number, const at::Tensor& flat,
                           std::vector<std::byte>& scratch)
    : links_(links),
      number_(number),
      data_(static_cast<std::byte*>(flat.data_ptr())),
      element_bytes_(flat.element_size()),
      sum_(tree_reduce_of(flat.scalar_type())),
      parts_(flat.numel(), links.size()),
      chunk_elements_(std::min(kChunkBytes / static_cast<std::int64_t>(element_bytes_), parts_.largest())),
      chunks_((parts_.largest() + chunk_elements_ - 1) / chunk_elements_),
      scratch_(scratch) {
  const std::size_t slots = 2 * static_cast<std::size_t>(links.size());
  scratch_.resize(std::max(scratch_.size(), slots * bytes({0, chunk_elements_})));
}

// The order of transfers between two members is the same on both: the parts of chunk c + 1 are sent before the sums of
// chunk c. Receives are posted in the order in which the peer sends.
void PartExchange::send_all(const std::function<void()>& between) {
  for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
    if (chunk + 1 < chunks_) swap_parts(chunk + 1);
    sum_chunk(chunk);
    gather_sums(chunk);
    between();
  }
}

PartExchange::Span PartExchange::chunk_of(int owner, std::int64_t chunk) const {
  const std::int64_t end = parts_.begin(owner + 1);
  const std::int64_t begin = std::min(parts_.begin(owner) + chunk * chunk_elements_, end);
  return {begin, std::min(chunk_elements_, end - begin)};
}

std::byte* PartExchange::scratch_of(int peer, std::int64_t chunk) {
  return scratch_.data() + static_cast<std::size_t>(2 * peer + chunk % 2) * bytes({0, chunk_elements_});
}

// Starts the reduce-scatter of a chunk. Its scratch memory is free: the chunk that used it, two chunks before, is
// summed.
void PartExchange::swap_parts(std::int64_t chunk) {
  std::vector<Transfer>& arriving = arriving_.emplace_back();
  const Span mine = chunk_of(links_.rank(), chunk);
  for (int peer = 0; peer < links_.size(); ++peer) {
    if (peer == links_.rank()) continue;
    if (mine.count > 0) arriving.push_back(links_.receive(number_, peer, scratch_of(peer, chunk), bytes(mine)));
    send(peer, chunk_of(peer, chunk));
  }
}

void PartExchange::sum_chunk(std::int64_t chunk) {
  for (const Transfer& transfer : arriving_.front()) links_.wait(transfer);
  arriving_.pop_front();
  const Span mine = chunk_of(links_.rank(), chunk);
  std::vector<void*> arrays;
  for (int member = 0; member < links_.size(); ++member) {
    arrays.push_back(member == links_.rank() ? at(mine) : scratch_of(member, chunk));
  }
  sum_(arrays, 0, mine.count);
}

// Starts the all-gather of a chunk. The sums may overwrite this member's elements of that chunk: their owner sends the
// sum only after it has received these elements.
void PartExchange::gather_sums(std::int64_t chunk) {
  const Span mine = chunk_of(links_.rank(), chunk);
  for (int peer = 0; peer < links_.size(); ++peer) {
    if (peer == links_.rank()) continue;
    const Span theirs = chunk_of(peer, chunk);
    if (theirs.count > 0) others_.push_back(links_.receive(number_, peer, at(theirs), bytes(theirs)));
    send(peer, mine);
  }
}

// How a payload travels, by its size on the sender: up to kInlinePayload in the announcement itself; larger, between
// hosts, as transfers of LinkCollective or PartExchange; larger, between devices, by DeviceExchange. In a gather
// members may send by different ways.

LinkCollective::LinkCollective(PeerLinks& links, c10d::Backend* devices, LinkTask& task, LinkMemory& memory)
    : links_(links), devices_(devices), task_(task), memory_(memory) {
  if (task.ready) task.ready->synchronize();  // the caller's stream may still write the tensor
  const Announcement& mine = task.announcement;
  const std::size_t bytes = task.tensor.defined() ? task.tensor.nbytes() : 0;
  const bool is_small = bytes <= kInlinePayload;
  const bool gives = mine.posting.operation != Operation::kBroadcast || task.root == links.rank();
  memory.on_cpu = task.tensor.defined() && (is_small || !mine.by_device) ? task.tensor.cpu() : at::Tensor();
  number_ = links.announce(mine, bytes > 0 && is_small ? on_cpu().data_ptr() : nullptr, gives && is_small ? bytes : 0);
}

bool LinkCollective::is_sum_of_parts() const {
  return task_.announcement.posting.operation == Operation::kAllReduce && on_cpu().defined() &&
         on_cpu().nbytes() > kInlinePayload;
}

void LinkCollective::begin_early() {
  if (!is_sum_of_parts() || parts_ || !links_.have_all_announced(number_)) return;
  links_.await_all(number_);
  parts_.emplace(links_, number_, on_cpu(), memory_.scratch).begin();
}

void LinkCollective::send(const std::function<void()>& between) {
  links_.await_all(number_);
  if (task_.announcement.by_device && pass_on_device()) return;
  switch (task_.announcement.posting.operation) {
    case Operation::kAllReduce:
      if (!is_sum_of_parts()) return sum_messages();
      if (!parts_) parts_.emplace(links_, number_, on_cpu(), memory_.scratch).begin();
      return parts_->send_all(between);
    case Operation::kBroadcast:
      return take_from(task_.root);
    case Operation::kAllGather:
    case Operation::kAllGatherEqual:
      return gather();
    case Operation::kBarrier:
      return;
  }
}

// After this nothing uses the task's memory any more. A tensor on a device is copied back.
void LinkCollective::end() {
  if (parts_) parts_->end();
  for (const Transfer& transfer : transfers_) links_.wait(transfer);
  if (on_cpu().defined() && !task_.tensor.is_cpu()) task_.tensor.copy_(on_cpu());
  links_.finish(number_);
}

// Returns false if all payloads went along with the announcements. All members know all sizes, and so agree on that.
bool LinkCollective::pass_on_device() {
  std::vector<std::int64_t> counts;
  for (int each = 0; each < links_.size(); ++each) counts.push_back(message_of(each).announcement.posting.count);
  const std::int64_t bytes = *std::ranges::max_element(counts) * static_cast<std::int64_t>(task_.tensor.element_size());
  if (bytes <= static_cast<std::int64_t>(kInlinePayload)) return false;
  memory_.on_cpu.reset();  // this member's payload was small and went along in vain: another member's is large
  const c10::DeviceGuard guard(task_.tensor.device());
  DeviceExchange exchange(*devices_, links_.rank(), links_.size());
  const Operation operation = task_.announcement.posting.operation;
  if (operation == Operation::kAllReduce) exchange.all_reduce(task_.tensor);
  if (operation == Operation::kBroadcast) exchange.broadcast(task_.tensor, task_.root);
  if (operation == Operation::kAllGather) task_.gathered = exchange.all_gather(task_.tensor, counts);
  await_device(task_.tensor.device());  // or until another thread aborts the backend
  return true;
}

// Sums payloads that came with the announcements: every member sums all elements of all members, in the order of ranks.
void LinkCollective::sum_messages() {
  const std::size_t bytes = on_cpu().nbytes();
  if (bytes == 0) return;
  memory_.scratch.resize(std::max(memory_.scratch.size(), static_cast<std::size_t>(links_.size()) * kInlinePayload));
  std::vector<void*> arrays;
  for (int each = 0; each < links_.size(); ++each) {
    arrays.push_back(memory_.scratch.data() + static_cast<std::size_t>(each) * kInlinePayload);
    std::memcpy(arrays.back(), message_of(each).payload.data(), bytes);
  }
  tree_reduce(arrays, on_cpu().scalar_type(), 0, on_cpu().numel());
  std::memcpy(on_cpu().data_ptr(), arrays.front(), bytes);
}

// A broadcast: the root's payload is in its announcement, or the root sends it to all members.
void LinkCollective::take_from(int root) {
  const std::size_t bytes = on_cpu().nbytes();
  if (bytes <= kInlinePayload) {
    if (links_.rank() != root && bytes > 0) std::memcpy(on_cpu().data_ptr(), message_of(root).payload.data(), bytes);
  } else if (links_.rank() != root) {
    transfers_.push_back(links_.receive(number_, root, on_cpu().data_ptr(), bytes));
  } else {
    send_to_all();
  }
}

// Receives each member's elements in place if the task brought memory for them, and otherwise into new tensors. The
// announcements say how many elements each member gives.
void LinkCollective::gather() {
  if (on_cpu().nbytes() > kInlinePayload) send_to_all();
  task_.gathered.resize(static_cast<std::size_t>(links_.size()));
  for (int each = 0; each < links_.size(); ++each) {
    const PeerMessage& message = message_of(each);
    const std::int64_t count = message.announcement.posting.count;
    at::Tensor& theirs = task_.gathered[static_cast<std::size_t>(each)];
    if (!theirs.defined()) theirs = at::empty({count}, on_cpu().options());
    TANDEM_CHECK(theirs.numel() == count, "rank ", each, " shares ", count, " elements, expected ", theirs.numel());
    const std::size_t bytes = theirs.nbytes();
    if (bytes == 0) continue;
    if (each == links_.rank() && theirs.const_data_ptr() == on_cpu().const_data_ptr()) continue;
    if (each == links_.rank()) {
      std::memcpy(theirs.data_ptr(), on_cpu().data_ptr(), bytes);
    } else if (bytes <= kInlinePayload) {
      std::memcpy(theirs.data_ptr(), message.payload.data(), bytes);
    } else {
      transfers_.push_back(links_.receive(number_, each, theirs.data_ptr(), bytes));
    }
  }
}

void LinkCollective::send_to_all() {
  for (int peer = 0; peer < links_.size(); ++peer) {
    if (peer != links_.rank()) transfers_.push_back(links_.send(number_, peer, on_cpu().data_ptr(), on_cpu().nbytes()));
  }
}

}  // namespace tandem::comm
