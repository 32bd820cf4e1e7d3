#include "tandem/comm/part_exchange.h"

#include <algorithm>

namespace tandem::comm {
namespace {

// Small, so that little is on its way when the first chunk can be summed, and when the last one was.
constexpr std::int64_t kChunkBytes = std::int64_t{1} << 19;
// Chunks that may arrive before the first of them was summed: half a bucket of two members.
constexpr std::int64_t kAhead = 4;

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
  const auto slots = static_cast<std::size_t>(std::min(kAhead, chunks_) * links.size());
  scratch_.resize(std::max(scratch_.size(), slots * bytes({0, chunk_elements_})));
}

void PartExchange::begin() {
  post_receives(kAhead);
  send_parts(0);
}

void PartExchange::send_all(const std::function<void()>& between) {
  for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
    if (chunk + 1 < chunks_) send_parts(chunk + 1);
    sum_chunk(chunk);
    post_receives(chunk + 1 + kAhead);
    send_sums(chunk);
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
  const std::int64_t kept = std::min(kAhead, chunks_);
  return scratch_.data() + static_cast<std::size_t>(kept * peer + chunk % kept) * bytes({0, chunk_elements_});
}

// Of the parts up to chunk `end`, and of the sums up to the one before, in the order in which peers send them: part 0,
// then each part and the sum of the chunk before it, and the last sum. A chunk's scratch memory is free again when it
// was summed. A sum may overwrite what it is the sum of: its owner had received all of that.
void PartExchange::post_receives(std::int64_t end) {
  const auto receive_sums = [&](std::int64_t chunk) {
    for (int peer = 0; peer < links_.size(); ++peer) {
      const Span theirs = chunk_of(peer, chunk);
      if (peer == links_.rank() || theirs.count == 0) continue;
      others_.push_back(links_.receive(number_, peer, at(theirs), bytes(theirs)));
    }
  };
  for (; posted_ < std::min(end, chunks_); ++posted_) {
    std::vector<Transfer>& arriving = arriving_.emplace_back();
    const Span mine = chunk_of(links_.rank(), posted_);
    for (int peer = 0; peer < links_.size(); ++peer) {
      if (peer == links_.rank() || mine.count == 0) continue;
      arriving.push_back(links_.receive(number_, peer, scratch_of(peer, posted_), bytes(mine)));
    }
    if (posted_ > 0) receive_sums(posted_ - 1);
    if (posted_ + 1 == chunks_) receive_sums(posted_);
  }
}

void PartExchange::send_parts(std::int64_t chunk) {
  for (int peer = 0; peer < links_.size(); ++peer) {
    if (peer != links_.rank()) send(peer, chunk_of(peer, chunk));
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

void PartExchange::send_sums(std::int64_t chunk) {
  const Span mine = chunk_of(links_.rank(), chunk);
  for (int peer = 0; peer < links_.size(); ++peer) {
    if (peer != links_.rank()) send(peer, mine);
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
