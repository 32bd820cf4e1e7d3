#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/plot/chart.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;

TEST(ReadPointsTest, LeavesOutWhatHasNoNumberAndAnUnfinishedLine) {
  const TemporaryFolder folder;
  write_file(folder / "m", "{\"x\":1,\"y\":null}\n{\"x\":2,\"y\":5}\n{\"x\":3}\n{\"x\":4,\"y\":6.5}\n{\"x\":5,\"y\"");
  EXPECT_THAT(read_points(folder / "m", "x", "y"), ElementsAre(Point{2, 5}, Point{4, 6.5}));
}

TEST(ReadPointsTest, OfManyLinesEvenlySomeAreKeptAndTheLast) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 23; ++i) lines += "{\"x\":" + std::to_string(i) + ",\"y\":0}\n";
  write_file(folder / "m", lines);
  EXPECT_THAT(read_points(folder / "m", "x", "y", 6), ElementsAre(Point{0, 0}, Point{4, 0}, Point{8, 0}, Point{12, 0},
                                                                  Point{16, 0}, Point{20, 0}, Point{22, 0}));
}

TEST(ReadPointsTest, ABrokenLineIsNamed) {
  const TemporaryFolder folder;
  write_file(folder / "m", "{\"x\":1,\"y\":2}\nnonsense\n");
  try {
    (void)read_points(folder / "m", "x", "y");
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("m:2: no line of metrics"));
  }
  EXPECT_THROW((void)read_points(folder / "missing", "x", "y"), CheckpointError);
}

TEST(SmoothTest, IsTheMeanOfAWindowThatNarrowsTowardsTheEnds) {
  const std::vector<Point> points{{0, 0}, {1, 3}, {2, 6}, {3, 0}, {4, 3}};
  EXPECT_THAT(smooth(points, 1), ElementsAre(Point{0, 0}, Point{1, 3}, Point{2, 3}, Point{3, 3}, Point{4, 3}));
  EXPECT_THAT(smooth(points, 9), ElementsAre(Point{0, 0}, Point{1, 3}, Point{2, 2.4}, Point{3, 3}, Point{4, 3}));
  EXPECT_EQ(smooth(points, 0), points);
  EXPECT_TRUE(smooth({}, 3).empty());
}

TEST(ThinOutTest, KeepsTheEndsAndTheMeanOfTheRest) {
  std::vector<Point> points;
  for (int i = 0; i <= 1000; ++i) points.push_back({static_cast<double>(i), 2.0 * i});
  const std::vector<Point> thin = thin_out(points, 100);
  ASSERT_EQ(thin.size(), 100u);
  EXPECT_EQ(thin.front(), points.front());
  EXPECT_EQ(thin.back(), points.back());
  for (const Point& point : thin) EXPECT_DOUBLE_EQ(point.y, 2 * point.x);
  EXPECT_EQ(thin_out(points, 5000), points);
}

}  // namespace
}  // namespace tandem::app
