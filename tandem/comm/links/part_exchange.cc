#include "tandem/comm/links/part_exchange.h"

#include <algorithm>

namespace tandem::comm {
namespace {

// Small: nothing can be summed while the first chunk is on its way, and nothing is left to sum while the last one is.
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
  vector_.sum(arrays, 0, mine.count);
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
