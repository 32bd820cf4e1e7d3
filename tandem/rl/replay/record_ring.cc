#include "tandem/rl/replay/record_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// More than any run makes; numbers of rows, a multiple of it, do not overflow.
constexpr std::int64_t kMostRecords = std::int64_t{1} << 40;

// Arrays of a piece: of each column that has bytes, the first `records` records of the segment at `base`.
std::vector<NamedBytes> arrays_of(const RingPlan& plan, const std::vector<std::size_t>& offsets, const std::byte* base,
                                  std::int64_t records) {
  std::vector<NamedBytes> arrays;
  for (std::size_t c = 0; c < plan.columns.size(); ++c) {
    const Column& column = plan.columns[c];
    if (column.bytes == 0) continue;
    arrays.push_back({column.name, {base + offsets[c], column.bytes * static_cast<std::size_t>(records)}});
  }
  return arrays;
}

std::string piece_name(const std::string& ring, std::int64_t segment) { return concat(ring, ".", segment); }
std::string open_name(const std::string& ring) { return ring + ".open"; }

}  // namespace

std::size_t RingPlan::segment_bytes() const {
  std::size_t bytes = 0;
  for (const Column& column : columns) bytes += aligned_for_segment(column.bytes << shift);
  return std::max(bytes, kSegmentAlignment);
}

RecordRing::RecordRing(std::string name, RingPlan plan, const std::shared_ptr<std::byte>& memory)
    : name_(std::move(name)),
      plan_(std::move(plan)),
      mask_(plan_.records_of_segment() - 1),
      pool_(memory, plan_.segment_bytes(), plan_.segments) {
  std::size_t offset = 0;
  for (const Column& column : plan_.columns) {
    offsets_.push_back(offset);
    offset += aligned_for_segment(column.bytes << plan_.shift);
  }
  segments_.reserve(plan_.segments);
  bases_.reserve(plan_.segments);
}

void RecordRing::push() {
  if ((end_ & mask_) == 0) add_segment();
  ++end_;
}

// The oldest is let go before a place is taken, so that it is used again unless a snapshot holds it.
void RecordRing::add_segment() {
  if (segments_.size() == plan_.segments) {
    segments_.erase(segments_.begin());
    bases_.erase(bases_.begin());
    ++first_segment_;
  }
  segments_.push_back(pool_.take());
  bases_.push_back(segments_.back().get());
}

void RecordRing::clear() {
  segments_.clear();
  bases_.clear();
  first_segment_ = end_ = 0;
}

void RecordRing::append_pieces(std::vector<ReplayPiece>& pieces) const {
  if (segments_.empty()) return;
  for (std::size_t i = 0; i + 1 < segments_.size(); ++i) {
    pieces.push_back({.name = piece_name(name_, first_segment_ + static_cast<std::int64_t>(i)),
                      .is_final = true,
                      .arrays = arrays_of(plan_, offsets_, bases_[i], plan_.records_of_segment()),
                      .memory = segments_[i]});
  }
  const std::int64_t records =
      end_ - ((first_segment_ + static_cast<std::int64_t>(segments_.size()) - 1) << plan_.shift);
  std::vector<NamedBytes> arrays = arrays_of(plan_, offsets_, bases_.back(), records);
  std::size_t bytes = 0;
  for (const NamedBytes& array : arrays) bytes += array.bytes.size();
  const std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);  // make_shared would write it twice
  std::size_t at = 0;
  for (NamedBytes& array : arrays) {
    std::memcpy(copy.get() + at, array.bytes.data(), array.bytes.size());
    array.bytes = {copy.get() + at, array.bytes.size()};
    at += array.bytes.size();
  }
  pieces.push_back({.name = open_name(name_), .is_final = false, .arrays = std::move(arrays), .memory = copy});
}

bool RecordRing::can_hold(std::int64_t first, std::int64_t end) const {
  if (first < 0 || end < first || (first & mask_) != 0 || end > kMostRecords) return false;
  const std::int64_t segments = (end - first + mask_) >> plan_.shift;
  // The oldest segment goes only when all are needed.
  return segments <= static_cast<std::int64_t>(plan_.segments) &&
         (first == 0 || segments == static_cast<std::int64_t>(plan_.segments));
}

void RecordRing::restore(std::int64_t first, std::int64_t end, const ReadReplayPiece& read) {
  TANDEM_CHECK(can_hold(first, end), "records ", first, " to ", end);
  clear();
  first_segment_ = first >> plan_.shift;
  end_ = first;
  try {
    while (end_ < end) {
      const std::int64_t records = std::min(plan_.records_of_segment(), end - end_);
      const bool is_newest = end_ + records == end;
      const ReplayPiece piece = read(is_newest ? open_name(name_) : piece_name(name_, end_ >> plan_.shift));
      add_segment();
      read_segment(piece, records);
      end_ += records;
    }
  } catch (...) {
    clear();
    throw;
  }
}

// Sizes come from a file; nothing is copied before they are known to fit.
void RecordRing::read_segment(const ReplayPiece& piece, std::int64_t records) {
  const auto arrays = std::ranges::count_if(plan_.columns, [](const Column& column) { return column.bytes > 0; });
  if (static_cast<std::ptrdiff_t>(piece.arrays.size()) != arrays) {
    throw CheckpointError(concat("replay piece \"", piece.name, "\" has ", piece.arrays.size(),
                                 " arrays and must have ", arrays, "; another spec or other options wrote it"));
  }
  for (std::size_t c = 0; c < plan_.columns.size(); ++c) {
    const Column& column = plan_.columns[c];
    if (column.bytes == 0) continue;
    const auto found = std::ranges::find(piece.arrays, column.name, &NamedBytes::name);
    const std::size_t bytes = column.bytes * static_cast<std::size_t>(records);
    if (found == piece.arrays.end() || found->bytes.size() != bytes) {
      throw CheckpointError(concat("replay piece \"", piece.name, "\" ",
                                   found == piece.arrays.end()
                                       ? concat("lacks the array \"", column.name, "\"")
                                       : concat("has ", found->bytes.size(), " bytes of \"", column.name, "\""),
                                   "; there must be ", bytes, " bytes, of ", records, " records"));
    }
    std::memcpy(bases_.back() + offsets_[c], found->bytes.data(), bytes);
  }
}

}  // namespace tandem::rl
