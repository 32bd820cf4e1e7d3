#include "tandem/app/run/mean_interval.h"

#include <gtest/gtest.h>

#include <array>

#include "tandem/base/error.h"

namespace tandem::app {
namespace {

// The interval of these three is 2 +- 4.303 / sqrt(3).
TEST(MeanIntervalTest, ItIsStudentsT) {
  const MeanInterval of = mean_interval(std::array{1.0, 2.0, 3.0});
  EXPECT_DOUBLE_EQ(of.mean, 2);
  EXPECT_DOUBLE_EQ(of.deviation, 1);
  EXPECT_NEAR(of.half, 2.4843, 1e-4);
}

TEST(MeanIntervalTest, OneValueHasNone) { EXPECT_THROW((void)mean_interval(std::array{1.0}), InvariantError); }

}  // namespace
}  // namespace tandem::app
