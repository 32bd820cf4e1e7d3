#include "tandem/comm/links/part_exchange.h"

#include <algorithm>

namespace tandem::comm {
namespace {

// Small, so that little is on its way when the first chunk can be summed, and when the last one was.
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 19;

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

PartExchange::PartExchange(PeerLinks& links, std::uint64_t number, const Vector& vector,
                           std::vector<std::byte>& scratch)
    : links_(links),
      number_(number),
      vector_(vector),
      parts_(vector.count, links.size()),
      chunk_elements_(std::min(kChunkBytes / static_cast<std::int64_t>(vector.element_bytes), parts_.largest())),
      chunks_(ceil_of(parts_.largest(), chunk_elements_)),
      scratch_(scratch) {
  const std::size_t slots = 2 * static_cast<std::size_t>(links.size());
  scratch_.resize(std::max(scratch_.size(), slots * bytes({0, chunk_elements_})));
}

void PartExchange::begin() { swap_parts(0); }

void PartExchange::send_all(const std::function<void()>& between) {
  for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
    if (chunk + 1 < chunks_) swap_parts(chunk + 1);
    sum_chunk(chunk);
    gather_sums(chunk);
    between();
  }
}

void PartExchange::end() {
  for (const Transfer& transfer : others_) links_.wait(transfer);
}

PartExchange::Span PartExchange::chunk_of(int owner, std::int64_t chunk) const {
  const std::int64_t end = parts_.begin(owner + 1);
  const std::int64_t begin = std::min(parts_.begin(owner) + chunk * chunk_elements_, end);
  return {begin, std::min(chunk_elements_, end - begin)};
}

std::byte* PartExchange::scratch_of(int peer, std::int64_t chunk) {
  return scratch_.data() + static_cast<std::size_t>(2 * peer + chunk % 2) * bytes({0, chunk_elements_});
}

// The scratch memory of a chunk is free again: the one before the last was summed.
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
  vector_.sum(arrays, 0, mine.count);
}

// An owner sends the sum of a chunk when it has received that chunk from all, so what it sends may overwrite it.
void PartExchange::gather_sums(std::int64_t chunk) {
  const Span mine = chunk_of(links_.rank(), chunk);
  for (int peer = 0; peer < links_.size(); ++peer) {
    if (peer == links_.rank()) continue;
    const Span theirs = chunk_of(peer, chunk);
    if (theirs.count > 0) others_.push_back(links_.receive(number_, peer, at(theirs), bytes(theirs)));
    send(peer, mine);
  }
}

void PartExchange::send(int peer, const Span& span) {
  if (span.count > 0) others_.push_back(links_.send(number_, peer, at(span), bytes(span)));
}

std::byte* PartExchange::at(const Span& span) const {
  return vector_.data + static_cast<std::size_t>(span.begin) * vector_.element_bytes;
}

std::size_t PartExchange::bytes(const Span& span) const {
  return static_cast<std::size_t>(span.count) * vector_.element_bytes;
}

}  // namespace tandem::comm
