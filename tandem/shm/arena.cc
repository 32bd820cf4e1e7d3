#include "tandem/shm/arena.h"

#include <algorithm>
#include <iterator>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::shm {

constexpr std::uint64_t kPage = 4096;

Arena::Arena(std::shared_ptr<Region> region, int rank)
    : region_(std::move(region)),
      begin_(region_->arena_begin(rank)),
      limit_(begin_ + region_->arena_bytes()),
      end_(begin_) {}

std::shared_ptr<std::byte> Arena::allocate(std::uint64_t bytes) {
  // Cut to one byte more than the arena has: rounding larger sizes up could wrap around.
  const std::uint64_t whole = std::min(std::max<std::uint64_t>(bytes, 1), limit_ - begin_ + 1);
  const std::uint64_t rounded = (whole + kPage - 1) / kPage * kPage;
  const std::uint64_t begin = take(rounded);
  return {region_->at(begin),
          [self = shared_from_this(), begin, rounded](std::byte*) { self->give_back(begin, rounded); }};
}

// Takes the first free range that is large enough. Otherwise takes new pages at the end, together with a free range
// that lies there.
std::uint64_t Arena::take(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, length] = *range;
    const bool last = begin + length == end_;
    if (length < bytes && !last) continue;
    if (length < bytes) {
      if (begin + bytes > limit_) break;
      region_->back(end_, begin + bytes - end_);
      end_ = begin + bytes;
    }
    free_.erase(range);
    if (length > bytes) free_.emplace(begin + bytes, length - bytes);
    return begin;
  }
  if (bytes > limit_ - end_) {
    throw RunError(concat("shared memory of the host group: a buffer of ", bytes, " bytes and ", end_ - begin_,
                          " bytes taken before are more than the ", limit_ - begin_, " bytes that this machine has"));
  }
  region_->back(end_, bytes);
  end_ += bytes;
  return end_ - bytes;
}

// Merges the range with the free ranges on both sides, so that no two free ranges ever touch.
void Arena::give_back(std::uint64_t begin, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto after = free_.find(begin + bytes);
  if (after != free_.end()) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto behind = free_.lower_bound(begin);
  if (behind != free_.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second == begin) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(begin, bytes);
}

}  // namespace tandem::shm
