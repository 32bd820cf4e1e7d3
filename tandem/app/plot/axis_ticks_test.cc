#include "tandem/app/plot/axis_ticks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;

TEST(AxisTicksTest, AreRoundNumbersInOneUnit) {
  EXPECT_THAT(axis_ticks(0, 500'000, 6).labels, ElementsAre("0", "100k", "200k", "300k", "400k", "500k"));
  EXPECT_THAT(axis_ticks(0, 99'840, 9).labels, ElementsAre("0", "20k", "40k", "60k", "80k"));
  EXPECT_THAT(axis_ticks(-210, 10, 6).labels, ElementsAre("-200", "-150", "-100", "-50", "0"));
  EXPECT_THAT(axis_ticks(0, 1, 6).labels, ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(axis_ticks(0, 4'000'000, 5).labels, ElementsAre("0", "1M", "2M", "3M", "4M"));
  EXPECT_THAT(axis_ticks(0, 1'000'000, 6).labels, ElementsAre("0", "0.2M", "0.4M", "0.6M", "0.8M", "1.0M"));
  EXPECT_THAT(axis_ticks(0, 10'000'000, 5).labels, ElementsAre("0", "2.5M", "5.0M", "7.5M", "10.0M"));
}

TEST(AxisTicksTest, KeepTheirPromisesForAnyRange) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-9, 12), share(-1, 1);
  for (int i = 0; i < 20'000; ++i) {
    const double width = std::pow(10, exponent(random)), low = share(random) * 20 * width, high = low + width;
    const int most = 2 + i % 9;
    const AxisTicks ticks = axis_ticks(low, high, most);
    const std::string range = concat(low, " .. ", high, " in ", most);
    ASSERT_EQ(ticks.values.size(), ticks.labels.size()) << range;
    ASSERT_LE(ticks.values.size(), static_cast<std::size_t>(most)) << range;
    ASSERT_GE(ticks.values.size(), 1u) << range;
    for (std::size_t t = 0; t < ticks.values.size(); ++t) {
      ASSERT_TRUE(ticks.values[t] >= low && ticks.values[t] <= high) << range;
      if (t > 0) {
        ASSERT_NE(ticks.labels[t], ticks.labels[t - 1]) << range;
      }
    }
  }
}

TEST(PowerTicksTest, ArePowersOfTwoAsManyAsThereIsRoomFor) {
  EXPECT_EQ(power_ticks(0, 3.5, 9).labels, (std::vector<std::string>{"1", "2", "4", "8"}));
  EXPECT_EQ(power_ticks(0, 3.5, 9).values, (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(power_ticks(0, 13.3, 9).labels, (std::vector<std::string>{"1", "4", "16", "64", "256", "1024", "4096"}));
  EXPECT_EQ(power_ticks(0, 9, 9).labels.size(), 5u);
}

TEST(AxisRangeTest, IsALittleWiderAndStartsAtZeroWhereThatIsNear) {
  EXPECT_EQ(axis_range(20, 500).low, 0);
  EXPECT_GT(axis_range(20, 500).high, 500);
  EXPECT_LT(axis_range(400, 500).low, 400);
  EXPECT_GT(axis_range(400, 500).low, 0);
  EXPECT_EQ(axis_range(-500, -80).high, 0);
}

TEST(AxisRangeTest, IsNeverEmpty) {
  for (const double value : {0.0, 5.0, -200.0}) {
    EXPECT_LT(axis_range(value, value).low, value);
    EXPECT_GT(axis_range(value, value).high, value);
  }
}

}  // namespace
}  // namespace tandem::app
