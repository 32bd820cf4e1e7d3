#include "tandem/metrics/window_stat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"

namespace tandem {
namespace {

WindowStat window_of(std::size_t capacity, const std::vector<double>& values) {
  WindowStat window(capacity);
  for (const double value : values) window.add(value);
  return window;
}

TEST(WindowStatTest, NothingOfAnEmptyWindow) {
  const WindowStat window(3);
  EXPECT_EQ(window.count(), 0u);
  EXPECT_FALSE(window.mean() || window.standard_deviation() || window.min() || window.max() || window.quantile(0.5));
}

TEST(WindowStatTest, DescribesWhatIsInTheWindowOnly) {
  const WindowStat window = window_of(4, {100, -100, 1, 2, 3, 6});
  EXPECT_EQ(window.count(), 4u);
  EXPECT_EQ(window.values(), (std::vector<double>{1, 2, 3, 6}));
  EXPECT_EQ(window.mean(), 3.0);
  EXPECT_EQ(window.standard_deviation(), std::sqrt(3.5));
  EXPECT_EQ(window.min(), 1.0);
  EXPECT_EQ(window.max(), 6.0);
}

TEST(WindowStatTest, QuantilesAreThoseOfNumpy) {
  const WindowStat window = window_of(5, {6, 1, 3, 2});
  EXPECT_EQ(window.quantile(0), 1.0);
  EXPECT_EQ(window.quantile(1), 6.0);
  EXPECT_EQ(window.quantile(0.5), 2.5);
  EXPECT_DOUBLE_EQ(*window.quantile(0.9), 5.1);
  EXPECT_EQ(window_of(1, {7}).quantile(0.3), 7.0);
  EXPECT_EQ(window_of(3, {1, 2, INFINITY}).quantile(0.5), 2.0);
  EXPECT_THROW((void)window.quantile(1.5), InvariantError);
}

TEST(WindowStatTest, ARestoredWindowGivesTheSameBitsAsTheOneThatRan) {
  Philox random(1);
  WindowStat running(7);
  for (int i = 0; i < 60; ++i) {
    running.add(random.normal() * 1e3);
    const WindowStat restored = window_of(7, running.values());
    ASSERT_EQ(restored.mean(), running.mean()) << i;
    ASSERT_EQ(restored.standard_deviation(), running.standard_deviation()) << i;
    ASSERT_EQ(restored.values(), running.values()) << i;
  }
}

}  // namespace
}  // namespace tandem
