#include "tandem/app/run/quantity_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::app {
namespace {

TEST(CountTextTest, KeepsThreeDigitsAndTheUnitThatFits) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(950), "950");
  EXPECT_EQ(count_text(999.6), "1.00k");
  EXPECT_EQ(count_text(1234), "1.23k");
  EXPECT_EQ(count_text(12'345), "12.3k");
  EXPECT_EQ(count_text(186'432), "186k");
  EXPECT_EQ(count_text(999'700), "1.00M");
  EXPECT_EQ(count_text(-2'500'000), "-2.50M");
}

TEST(DurationTextTest, ShowsHoursOnlyWhereThereAreSome) {
  EXPECT_EQ(duration_text(7), "0:07");
  EXPECT_EQ(duration_text(765), "12:45");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(std::nan("")), "?");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(duration_text(1e12), "?");
}

TEST(ValueTextTest, ShowsWhatIsUnknownAsADash) {
  EXPECT_EQ(value_text(std::nan("")), "-");
  EXPECT_EQ(value_text(431.25), "431.2");
  EXPECT_EQ(value_text(-200), "-200.0");
  EXPECT_EQ(value_text(0.0312), "0.0312");
  EXPECT_EQ(value_text(0), "0.0000");
  EXPECT_EQ(value_text(2.5e-4), "2.50e-04");
}

TEST(BoundTextTest, IsTheShortestOfFourDigits) {
  EXPECT_EQ(bound_text(0.9), "0.9");
  EXPECT_EQ(bound_text(475), "475");
  EXPECT_EQ(bound_text(-0.0123456), "-0.01235");
  EXPECT_EQ(bound_text(-123.4), "-123.4");
  EXPECT_EQ(bound_text(20'000), "20000");
  EXPECT_EQ(bound_text(0), "0");
}

}  // namespace
}  // namespace tandem::app
