// rl/replay/record_ring.h: records in the order of time, of which the oldest make place for new ones, as columns within
// segments.
//
//   segment 5   | column 0 of records 40 .. 47 | column 1 of records 40 .. 47 | ...     full: nobody writes to it again
//   segment 6   | column 0 of records 48 .. 50 ...                                      the newest: records are added
//
// Records have numbers, which count on for ever; a segment has 2^shift of them. When there is no place for another
// segment, the oldest goes as a whole. Snapshots share full segments and copy the newest.
//
// Threads: single-thread; what snapshots share is immutable and may be read by any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/replay/replay_snapshot.h"
#include "tandem/rl/replay/segment_pool.h"

namespace tandem::rl {

/// One array of a record, of `bytes` bytes.
struct Column {
  std::string name;
  std::size_t bytes = 0;
};

/// The shape of a ring, and what follows from it. Immutable.
struct RingPlan {
  std::vector<Column> columns;
  int shift = 0;             // a segment has 2^shift records
  std::size_t segments = 2;  // at most, the newest included

  /// Records of one segment, its bytes, and those of all segments.
  [[nodiscard]] std::int64_t records_of_segment() const { return std::int64_t{1} << shift; }
  [[nodiscard]] std::size_t segment_bytes() const;
  [[nodiscard]] std::size_t bytes() const { return segments * segment_bytes(); }
  /// Records that are held at the least, however the newest segment is filled.
  [[nodiscard]] std::int64_t least_held() const {
    return static_cast<std::int64_t>(segments - 1) * records_of_segment();
  }
};

class RecordRing {
 public:
  /// `name`: of its pieces in snapshots. `memory`: plan.bytes() bytes.
  RecordRing(std::string name, RingPlan plan, const std::shared_ptr<std::byte>& memory);

  /// The oldest record that is held, and the number that the next one gets. They are equal in an empty ring.
  [[nodiscard]] std::int64_t first() const { return first_segment_ << plan_.shift; }
  [[nodiscard]] std::int64_t end() const { return end_; }

  /// Makes record end(), whose bytes are undefined; drops the oldest segment if there is no other place.
  void push();
  /// Drops everything; the next record is number 0.
  void clear();
  /// Whether the next push() drops the oldest segment.
  [[nodiscard]] bool is_full() const { return (end_ & mask_) == 0 && segments_.size() == plan_.segments; }

  /// Column `column` of a record that is held.
  [[nodiscard]] std::byte* at(std::size_t column, std::int64_t record) {
    return bases_[segment_of(record)] + place_of(column, record);
  }
  [[nodiscard]] const std::byte* at(std::size_t column, std::int64_t record) const {
    return bases_[segment_of(record)] + place_of(column, record);
  }

  /// Adds the pieces of all that is held, oldest first: full segments as final ones, and a copy of the newest.
  void append_pieces(std::vector<ReplayPiece>& pieces) const;
  /// Reads records `first`, of the beginning of a segment, to `end` as append_pieces() gave them. Throws
  /// CheckpointError that names the piece; the ring is empty then.
  void restore(std::int64_t first, std::int64_t end, const ReadReplayPiece& read);
  /// Whether a ring of this plan may hold just these records.
  [[nodiscard]] bool can_hold(std::int64_t first, std::int64_t end) const;

  /// Bytes of memory beyond the plan's, which snapshots made necessary.
  [[nodiscard]] std::uint64_t heap_bytes() const { return pool_.heap_bytes(); }
  /// What the constructor was given.
  [[nodiscard]] const RingPlan& plan() const { return plan_; }

 private:
  // The place of the record's segment in segments_, and the record's byte within the segment.
  [[nodiscard]] std::size_t segment_of(std::int64_t record) const {
    return static_cast<std::size_t>((record >> plan_.shift) - first_segment_);
  }
  [[nodiscard]] std::size_t place_of(std::size_t column, std::int64_t record) const {
    return offsets_[column] + static_cast<std::size_t>(record & mask_) * plan_.columns[column].bytes;
  }
  // Drops the oldest segment if all are in use, and adds one behind the newest.
  void add_segment();
  // Copies `records` records of a piece into the newest segment; throws CheckpointError.
  void read_segment(const ReplayPiece& piece, std::int64_t records);

  const std::string name_;
  const RingPlan plan_;
  const std::int64_t mask_;
  std::vector<std::size_t> offsets_;  // by column, in a segment
  SegmentPool pool_;
  // Oldest first. bases_ are the addresses of the same, which at() needs.
  std::vector<std::shared_ptr<std::byte>> segments_;
  std::vector<std::byte*> bases_;
  std::int64_t first_segment_ = 0, end_ = 0;
};

}  // namespace tandem::rl
