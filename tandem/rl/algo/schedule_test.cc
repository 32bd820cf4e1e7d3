#include "tandem/rl/algo/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tandem/base/testing/message_of.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

double value_at(const std::string& text, double share) { return Schedule::read(text).value().at(8, share); }

TEST(ScheduleTest, WordsScaleTheOptionAndNothingFallsBelowZero) {
  EXPECT_EQ(value_at("constant", 0.5), 8);
  EXPECT_EQ(value_at("linear", 0.25), 6);
  EXPECT_EQ(value_at("linear", 1.5), 0);
  EXPECT_EQ(Schedule(Schedule::kLinear).factor(8, 0.25), 0.75);
  EXPECT_EQ(Schedule().factor(8, 0.25), 1);
}

TEST(ScheduleTest, PointsAreJoinedByStraightLines) {
  const char* text = "piecewise(0.2: 4, 0.4:2,0.8 : 2, 1: 0)";
  EXPECT_EQ(value_at(text, 0), 4);  // constant before the first
  EXPECT_DOUBLE_EQ(value_at(text, 0.3), 3);
  EXPECT_EQ(value_at(text, 0.6), 2);
  EXPECT_DOUBLE_EQ(value_at(text, 0.9), 1);
  EXPECT_EQ(value_at(text, 1), 0);
  EXPECT_EQ(value_at(text, 2), 0);  // and after the last
  EXPECT_DOUBLE_EQ(Schedule::read(text)->factor(8, 0.3), 3.0 / 8);
}

TEST(ScheduleTest, AShareThatIsGivenTwiceIsAJump) {
  const char* text = "piecewise(0: 1, 0.5: 1, 0.5: 3)";
  EXPECT_EQ(value_at(text, 0.49), 1);
  EXPECT_EQ(value_at(text, 0.5), 3);
}

TEST(ScheduleTest, ItsTextGivesTheSameScheduleAgain) {
  for (const char* text : {"constant", "linear", "piecewise(0: 3e-04, 0.1: 0.1, 1: 0)"}) {
    const Schedule schedule = Schedule::read(text).value();
    EXPECT_EQ(schedule.text(), std::string(text));
    EXPECT_EQ(Schedule::read(schedule.text())->points(), schedule.points());
  }
}

TEST(ScheduleTest, OtherTextsAreNone) {
  for (const char* text : {"", "cosine", "piecewise", "piecewise()", "piecewise(0)", "piecewise(0: 1",
                           "piecewise(0: 1,)", "piecewise(0: x)", "piecewise(: 1)", "piecewise(0: -1)",
                           "piecewise(0: nan)", "piecewise(0: inf)", "piecewise(0: 1, 2: 1)",
                           "piecewise(0.5: 1, 0.4: 1)", "piecewise(0: 1, 0: 2, 0: 3)", "piecewise(0: 1, 1: 0) or so"})
    EXPECT_FALSE(Schedule::read(text).has_value()) << text;
  std::string many = "piecewise(0: 1";
  for (int i = 0; i < 64; ++i) many += ", 1: 1";
  EXPECT_FALSE(Schedule::read(many + ")").has_value());
}

TEST(ScheduleTest, FaultsOfPointsAreNamed) {
  const auto fault = [](std::vector<Schedule::Point> points) {
    return message_of<ConfigError>([&] { (void)Schedule::piecewise(points); });
  };
  EXPECT_THAT(fault({}), HasSubstr("it has 0 points"));
  EXPECT_THAT(fault({{0, 1}, {1.5, 1}}), HasSubstr("point 1 is at 1.5; shares of the run go from 0 to 1"));
  EXPECT_THAT(fault({{0, -1}}), HasSubstr("point 0 has the value -1"));
  EXPECT_THAT(fault({{0.5, 1}, {0.4, 1}}), HasSubstr("point 1 is at 0.4, before the point ahead of it, at 0.5"));
}

TEST(ScheduleTest, AFunctionGivesTheValueItself) {
  const Schedule schedule = [](double share) { return 1 - share; };
  EXPECT_EQ(schedule.kind(), Schedule::kFunction);
  EXPECT_EQ(schedule.at(8, 0.25), 0.75);
  EXPECT_EQ(schedule.factor(8, 0.25), 0.75 / 8);
  EXPECT_EQ(schedule.at(8, 1.5), 0);  // the share ends at 1
  const Schedule bad = [](double) { return std::numeric_limits<double>::quiet_NaN(); };
  EXPECT_THAT(message_of<ConfigError>([&] { (void)bad.at(8, 0.5); }), HasSubstr("gave nan at the share 0.5"));
}

}  // namespace
}  // namespace tandem::rl
