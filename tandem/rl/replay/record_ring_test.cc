#include "tandem/rl/replay/record_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/replay/replay_mapping.h"

namespace tandem::rl {
namespace {

RingPlan small_plan() { return {.columns = {{"wide", 24}, {"byte", 1}, {"none", 0}}, .shift = 2, .segments = 3}; }

// Records whose bytes tell their number.
struct Ring {
  Ring() : ring("steps", small_plan(), map_replay({}, small_plan().bytes())) {}
  void push(int count) {
    for (int i = 0; i < count; ++i) {
      ring.push();
      std::memset(ring.at(0, ring.end() - 1), static_cast<int>(ring.end() % 251), 24);
      std::memset(ring.at(1, ring.end() - 1), static_cast<int>(ring.end() % 241), 1);
    }
  }
  void expect_right() const {
    for (std::int64_t record = ring.first(); record < ring.end(); ++record) {
      EXPECT_EQ(std::to_integer<int>(ring.at(0, record)[23]), (record + 1) % 251) << record;
      EXPECT_EQ(std::to_integer<int>(ring.at(1, record)[0]), (record + 1) % 241) << record;
    }
  }
  [[nodiscard]] std::vector<ReplayPiece> pieces() const {
    std::vector<ReplayPiece> pieces;
    ring.append_pieces(pieces);
    return pieces;
  }
  RecordRing ring;
};

ReadReplayPiece reader_of(const std::vector<ReplayPiece>& pieces) {
  return [&pieces](const std::string& name) -> ReplayPiece {
    for (const ReplayPiece& piece : pieces) {
      if (piece.name == name) return piece;
    }
    throw CheckpointError("there is no " + name);
  };
}

std::vector<std::byte> bytes_of(const ReplayPiece& piece) {
  std::vector<std::byte> all;
  for (const NamedBytes& array : piece.arrays) all.insert(all.end(), array.bytes.begin(), array.bytes.end());
  return all;
}

TEST(RecordRingTest, TheOldestSegmentMakesPlaceAndAllOthersStay) {
  Ring records;
  EXPECT_EQ(records.ring.first(), 0);
  for (int i = 1; i <= 100; ++i) {
    records.push(1);
    EXPECT_EQ(records.ring.end(), i);
    EXPECT_GE(records.ring.end() - records.ring.first(), std::min<std::int64_t>(i, small_plan().least_held()));
    EXPECT_EQ(records.ring.first() % 4, 0);
    records.expect_right();
  }
  EXPECT_EQ(records.ring.heap_bytes(), 0U);
}

TEST(RecordRingTest, FullSaysThatTheNextRecordDropsASegment) {
  Ring records;
  for (int i = 0; i < 60; ++i) {
    const bool was_full = records.ring.is_full();
    const std::int64_t first = records.ring.first();
    records.push(1);
    EXPECT_EQ(records.ring.first() != first, was_full) << i;
  }
}

TEST(RecordRingTest, WhatASnapshotSharesIsNeverOverwritten) {
  Ring records;
  records.push(10);
  const std::vector<ReplayPiece> taken = records.pieces();
  std::vector<std::vector<std::byte>> then;
  for (const ReplayPiece& piece : taken) then.push_back(bytes_of(piece));
  records.push(30);
  for (std::size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(bytes_of(taken[i]), then[i]) << taken[i].name;
  records.expect_right();
}

TEST(RecordRingTest, HeldSegmentsCostHeapUntilTheyAreDropped) {
  Ring records;
  records.push(12);
  std::vector<ReplayPiece> taken = records.pieces();
  records.push(12);
  EXPECT_EQ(records.ring.heap_bytes(), 2 * small_plan().segment_bytes())
      << "two full ones are held; the third is a copy";
  taken.clear();
  records.push(12);
  EXPECT_EQ(records.ring.heap_bytes(), 0U);
  records.expect_right();
}

TEST(RecordRingTest, FinalPiecesNeverChangeUnderTheirName) {
  Ring records;
  std::map<std::string, std::vector<std::byte>> written;
  for (int i = 0; i < 40; ++i) {
    records.push(i % 3);
    for (const ReplayPiece& piece : records.pieces()) {
      if (!piece.is_final) continue;
      const auto [known, is_new] = written.try_emplace(piece.name, bytes_of(piece));
      EXPECT_EQ(known->second, bytes_of(piece)) << piece.name;
    }
  }
  EXPECT_GE(written.size(), 8U);
}

TEST(RecordRingTest, RestoreGivesTheRecordsBackAndGoesOn) {
  for (const int count : {0, 1, 4, 5, 11, 12, 13, 50}) {
    Ring records, again;
    records.push(count);
    const std::vector<ReplayPiece> pieces = records.pieces();
    again.push(3);
    again.ring.restore(records.ring.first(), records.ring.end(), reader_of(pieces));
    EXPECT_EQ(again.ring.end(), count);
    again.expect_right();
    again.push(9);
    again.expect_right();
  }
}

TEST(RecordRingTest, PiecesOfAnotherSizeAreRefusedByName) {
  Ring records, again;
  records.push(6);
  std::vector<ReplayPiece> pieces = records.pieces();
  pieces[0].arrays[1].bytes = pieces[0].arrays[1].bytes.first(3);
  const auto restore = [&] { again.ring.restore(0, 6, reader_of(pieces)); };
  EXPECT_NE(message_of<CheckpointError>(restore).find("\"steps.0\" has 3 bytes of \"byte\""), std::string::npos);
  EXPECT_EQ(again.ring.end(), 0) << "it is empty then";
  pieces[0].arrays.pop_back();
  EXPECT_THROW(restore(), CheckpointError);
  pieces.erase(pieces.begin());
  EXPECT_THROW(restore(), CheckpointError);
}

TEST(RecordRingTest, ImpossibleRangesAreTold) {
  const Ring records;
  EXPECT_TRUE(records.ring.can_hold(0, 12));
  EXPECT_TRUE(records.ring.can_hold(4, 13));
  EXPECT_FALSE(records.ring.can_hold(0, 13)) << "four segments";
  EXPECT_FALSE(records.ring.can_hold(4, 12)) << "the first segment goes only when all three are needed";
  EXPECT_FALSE(records.ring.can_hold(3, 12));
  EXPECT_FALSE(records.ring.can_hold(-4, 4));
  EXPECT_FALSE(records.ring.can_hold(8, 4));
  EXPECT_FALSE(records.ring.can_hold(std::int64_t{1} << 60, (std::int64_t{1} << 60) + 12));
}

}  // namespace
}  // namespace tandem::rl
