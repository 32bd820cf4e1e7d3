#include "tandem/shm/member.h"

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"
#include "tandem/base/equal_parts.h"

namespace tandem::shm {
namespace {

// Where ranks have no core each, one rank sums for all up to this many bytes, which are counted over all ranks and
// multiplied by the number of cores: the more cores there are, the more is lost when only one of them works. Measured
// on two cores.
constexpr std::size_t kMostForOne = std::size_t{8} << 20;

}  // namespace

Member::Member(Meeting meeting, Exchange::OnClose on_close, Exchange::OnCall on_call)
    : exchange_(std::move(meeting), std::move(on_close), std::move(on_call)),
      arena_(std::make_shared<Arena>(exchange_.region(), exchange_.rank())),
      scratch_(static_cast<std::size_t>(size()) * kInlineBytes),
      arrays_(static_cast<std::size_t>(size())) {}

std::shared_ptr<std::byte> Member::allocate(std::uint64_t bytes) {
  if (!exchange_.is_open()) exchange_.throw_closed();
  std::shared_ptr<std::byte> memory = arena_->allocate(bytes);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

std::uint64_t Member::start_all_reduce(void* data, std::int64_t count, const Element& element) {
  TANDEM_CHECK(element.sum != nullptr, element.name, " cannot be summed");
  return start(posting_of(Operation::kAllReduce, count, element.name), data, element, Payload::kPost);
}

void Member::finish_all_reduce(std::uint64_t ticket, const Limits& limits) {
  if (is_summed_by_one(ticket)) {
    sum_by_one(ticket, limits);
  } else {
    exchange_.await_postings(ticket, limits);
    if (all_in_slots(ticket)) {
      sum_slots(ticket);
    } else {
      sum_my_part(ticket);
    }
    finish(ticket, limits);
  }
  Started& mine = started(ticket);
  if (mine.copy) std::memcpy(mine.data, mine.copy.get(), mine.bytes);
  mine.copy.reset();
}

void Member::broadcast(void* data, std::int64_t count, const Element& element, int root, const Limits& limits) {
  TANDEM_CHECK(root >= 0 && root < size(), "root ", root, " of ", size());
  const std::uint64_t ticket = start(posting_of(Operation::kBroadcast, count, element.name, exchange_.name(root)), data,
                                     element, rank() == root ? Payload::kPost : Payload::kNone);
  exchange_.await_postings(ticket, limits);
  if (const std::size_t bytes = started(ticket).bytes; rank() != root && bytes > 0) {
    std::memcpy(data, payload(root, ticket), bytes);
  }
  finish(ticket, limits);
  started(ticket).copy.reset();
}

void Member::all_gather(const void* data, std::int64_t count, const Element& element, Sizes sizes, const Visit& visit,
                        const Limits& limits) {
  const Operation operation = sizes == Sizes::kEqual ? Operation::kAllGatherEqual : Operation::kAllGather;
  const std::uint64_t ticket =
      start(posting_of(operation, count, element.name), const_cast<void*>(data), element, Payload::kPost);
  exchange_.await_postings(ticket, limits);
  for (int rank = 0; rank < size(); ++rank) visit(rank, payload(rank, ticket), exchange_.posting(rank, ticket).count);
  finish(ticket, limits);
  started(ticket).copy.reset();
}

void Member::barrier(const Limits& limits) {
  constexpr Element kNothing{.name = "", .bytes = 0};
  const std::uint64_t ticket = start(posting_of(Operation::kBarrier, 0, ""), nullptr, kNothing, Payload::kNone);
  exchange_.await_postings(ticket, limits);
  finish(ticket, limits);
}

// Puts the payload into its slot, or finds or makes its place in the group's memory, and posts.
std::uint64_t Member::start(Posting posting, void* data, const Element& element, Payload payload) {
  const std::uint64_t ticket = exchange_.next();
  Started& mine = started(ticket);
  mine.data = data;
  mine.bytes = static_cast<std::size_t>(posting.count) * element.bytes;
  mine.element = element;
  if (payload == Payload::kPost && mine.bytes <= kInlineBytes) {
    if (mine.bytes > 0) std::memcpy(exchange_.slot(rank(), ticket), data, mine.bytes);
  } else if (payload == Payload::kPost && exchange_.region()->contains(data)) {
    posting.offset = exchange_.region()->offset_of(data);
  } else if (payload == Payload::kPost) {
    mine.copy = arena_->allocate(mine.bytes);
    std::memcpy(mine.copy.get(), data, mine.bytes);
    posting.offset = exchange_.region()->offset_of(mine.copy.get());
  }
  mine.came_last = exchange_.post(posting);
  return ticket;
}

// Payloads in slots may be overwritten without asking (Note [Slots are free when they come round again]). Other ranks
// may still read or write a payload that lies elsewhere, so this rank waits for them.
void Member::finish(std::uint64_t ticket, const Limits& limits) {
  const bool in_slots = all_in_slots(ticket);
  exchange_.finish(ticket);
  if (!in_slots) exchange_.await_finishes(ticket, limits);
}

std::byte* Member::payload(int rank, std::uint64_t ticket) {
  const std::uint64_t offset = exchange_.posting(rank, ticket).offset;
  return offset == Posting::kInSlot ? exchange_.slot(rank, ticket) : exchange_.region()->at(offset);
}

bool Member::all_in_slots(std::uint64_t ticket) {
  for (int rank = 0; rank < size(); ++rank) {
    if (exchange_.posting(rank, ticket).offset != Posting::kInSlot) return false;
  }
  return true;
}

// Sums copies, since the other ranks still read the slots.
void Member::sum_slots(std::uint64_t ticket) {
  const Started& mine = started(ticket);
  for (int rank = 0; rank < size(); ++rank) {
    std::byte* copy = scratch_.data() + static_cast<std::size_t>(rank) * kInlineBytes;
    std::memcpy(copy, exchange_.slot(rank, ticket), mine.bytes);
    arrays_[static_cast<std::size_t>(rank)] = copy;
  }
  mine.element.sum(arrays_, 0, exchange_.posting(rank(), ticket).count);
  if (mine.bytes > 0) std::memcpy(mine.data, scratch_.data(), mine.bytes);
}

void Member::sum_my_part(std::uint64_t ticket) {
  if (size() == 1) return;
  for (int rank = 0; rank < size(); ++rank) arrays_[static_cast<std::size_t>(rank)] = payload(rank, ticket);
  const EqualParts parts(exchange_.posting(rank(), ticket).count, size());
  started(ticket).element.sum(arrays_, parts.begin(rank()), parts.begin(rank() + 1));
}

// Decides by this rank's own posting, without a wait. All ranks decide alike when their postings agree; the rank that
// came last notices when they do not.
bool Member::is_summed_by_one(std::uint64_t ticket) {
  const std::size_t bytes = started(ticket).bytes;
  const auto ranks_times_cores = static_cast<std::size_t>(size()) * static_cast<std::size_t>(exchange_.cores());
  return exchange_.has_gates() && bytes > kInlineBytes && bytes * ranks_times_cores <= kMostForOne;
}

// The other ranks have nothing to do, so they finish at once and wait for the sum.
void Member::sum_by_one(std::uint64_t ticket, const Limits& limits) {
  if (started(ticket).came_last) {
    exchange_.await_postings(ticket, limits);
    for (int rank = 0; rank < size(); ++rank) arrays_[static_cast<std::size_t>(rank)] = payload(rank, ticket);
    started(ticket).element.sum(arrays_, 0, exchange_.posting(rank(), ticket).count);
  }
  exchange_.finish(ticket);
  exchange_.await_finishes(ticket, limits);
}

}  // namespace tandem::shm
