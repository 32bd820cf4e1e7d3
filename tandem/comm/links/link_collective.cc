#include "tandem/comm/links/link_collective.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"
#include "tandem/comm/links/device_exchange.h"
#include "tandem/comm/tree_reduce.h"

namespace tandem::comm {

using shm::Operation;

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
  parts().begin();
}

void LinkCollective::send(const std::function<void()>& between) {
  links_.await_all(number_);
  if (task_.announcement.by_device && largest_payload() > kInlinePayload) return pass_on_device();
  pass(between);
}

void LinkCollective::pass(const std::function<void()>& between) {
  switch (task_.announcement.posting.operation) {
    case Operation::kAllReduce:
      if (!is_sum_of_parts()) return sum_messages();
      if (!parts_) parts().begin();
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

PartExchange& LinkCollective::parts() {
  const PartExchange::Vector vector{.data = static_cast<std::byte*>(on_cpu().data_ptr()),
                                    .count = on_cpu().numel(),
                                    .element_bytes = c10::elementSize(on_cpu().scalar_type()),
                                    .sum = tree_reduce_of(on_cpu().scalar_type())};
  return parts_.emplace(links_, number_, vector, memory_.scratch);
}

// In bytes, over all members. All members compute the same, and so agree on whether devices exchange directly.
std::size_t LinkCollective::largest_payload() const {
  std::int64_t count = 0;
  for (int each = 0; each < links_.size(); ++each) count = std::max(count, message_of(each).announcement.posting.count);
  return static_cast<std::size_t>(count * task_.tensor.element_size());
}

void LinkCollective::pass_on_device() {
  memory_.on_cpu.reset();  // this member's payload was small and went along in vain: another member's is large
  const c10::DeviceGuard guard(task_.tensor.device());
  DeviceExchange exchange(*devices_, links_.rank(), links_.size());
  std::vector<std::int64_t> counts;
  for (int each = 0; each < links_.size(); ++each) counts.push_back(message_of(each).announcement.posting.count);
  const Operation operation = task_.announcement.posting.operation;
  if (operation == Operation::kAllReduce) exchange.all_reduce(task_.tensor);
  if (operation == Operation::kBroadcast) exchange.broadcast(task_.tensor, task_.root);
  if (operation == Operation::kAllGather) task_.gathered = exchange.all_gather(task_.tensor, counts);
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
