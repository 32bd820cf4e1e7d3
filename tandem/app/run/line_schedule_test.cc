#include "tandem/app/run/line_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tandem::app {
namespace {

std::vector<std::int64_t> lines(const LineSchedule& schedule, std::int64_t updates) {
  std::vector<std::int64_t> all;
  for (std::int64_t update = 1; update <= updates; ++update) {
    if (schedule.has_line(update)) all.push_back(update);
    EXPECT_EQ(schedule.last_until(update), all.empty() ? 0 : all.back()) << update;
  }
  return all;
}

TEST(LineScheduleTest, LinesGetRarerEachTimeTheRunDoubles) {
  EXPECT_THAT(lines({.every = 1, .dense = 4}, 33), ::testing::ElementsAre(1, 2, 3, 4, 6, 8, 12, 16, 24, 32));
  EXPECT_THAT(lines({.every = 3, .dense = 2}, 26), ::testing::ElementsAre(3, 6, 12, 24));
  EXPECT_THAT(lines({.every = 1, .dense = 5}, 23), ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20));
}

TEST(LineScheduleTest, ADayOfAHundredUpdatesASecondHasFewerLinesThanAnHour) {
  const LineSchedule schedule{.every = 1, .dense = 1000};
  std::int64_t count = 0;
  for (std::int64_t update = 1; update <= 8'640'000; ++update) count += schedule.has_line(update) ? 1 : 0;
  EXPECT_LT(count, 1000 + 14 * 500);
}

TEST(LineScheduleTest, TheLargestNumbersDoNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(LineSchedule({.every = 1, .dense = kMost}).has_line(kMost));
  EXPECT_EQ(LineSchedule({.every = kMost, .dense = kMost}).last_until(kMost - 1), 0);
  EXPECT_LE(LineSchedule({.every = 1, .dense = 1}).last_until(kMost), kMost);
}

}  // namespace
}  // namespace tandem::app
