#include "tandem/concurrency/progress_board.h"

#include <gtest/gtest.h>

#include "tandem/base/error.h"

namespace tandem {
namespace {

TEST(ProgressBoardTest, WhatAUnitPostedLastIsSeenOnEveryCopy) {
  ProgressBoard board(3);
  const ProgressBoard copy = board;
  EXPECT_EQ(copy.look(1), Progress());
  for (const Progress& progress :
       {Progress{.round = 0, .steps = 0}, Progress{.round = 0, .steps = 7},
        Progress{.round = 0, .steps = 8, .finished = true},
        Progress{.round = (std::int64_t{1} << 39) - 2, .steps = (1 << 23) - 1, .finished = true}}) {
    board.post(1, progress);
    EXPECT_EQ(copy.look(1), progress);
  }
  EXPECT_EQ(copy.look(0), Progress());
  EXPECT_EQ(copy.look(2), Progress());
}

TEST(ProgressBoardTest, WhatACellCannotHoldIsADefect) {
  ProgressBoard board(2);
  EXPECT_THROW(board.post(2, {.round = 0}), InvariantError);
  EXPECT_THROW(board.post(0, {.round = 0, .steps = 1 << 23}), InvariantError);
  EXPECT_THROW(board.post(0, {.round = -1}), InvariantError);
  EXPECT_THROW(ProgressBoard(0), InvariantError);
}

}  // namespace
}  // namespace tandem
