#include "tandem/app/plot/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::StartsWith;

class ChartTest : public ::testing::Test {
 protected:
  static Chart chart_of(std::vector<Curve> curves) { return {"Title", "", "x", "y", 475.0, std::move(curves)}; }
  // Width and height from a PNG's first chunk.
  static std::pair<int, int> size_of(const std::string& png) {
    const auto number = [&](std::size_t at) {
      int value = 0;
      for (std::size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<unsigned char>(png[at + i]);
      return value;
    };
    return {number(16), number(20)};
  }

  TemporaryFolder folder;
};

TEST_F(ChartTest, ThePngHasTwoPixelsAPoint) {
  write_chart(chart_of({{"a", {{0, 1}, {10, 2}}}}), folder / "a.png", {300, 200});
  const std::string png = read_file(folder / "a.png");
  EXPECT_THAT(png, StartsWith("\x89PNG"));
  EXPECT_EQ(size_of(png), std::make_pair(600, 400));
}

TEST_F(ChartTest, TheSvgIsAWholeDocument) {
  write_chart(chart_of({{"a", {{0, 1}, {10, 2}}}}), folder / "a.svg");
  const std::string svg = read_file(folder / "a.svg");
  EXPECT_THAT(svg, StartsWith("<?xml"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

TEST_F(ChartTest, ARunWithoutPointsIsAnEmptyPicture) {
  EXPECT_NO_THROW(write_chart(chart_of({{"a", {}}, {"b", {}}}), folder / "none.png"));
  Chart chart;
  EXPECT_NO_THROW(write_chart(chart, folder / "nothing.png"));
  chart.curves = {{"a", {{5, 1}}}};
  EXPECT_NO_THROW(write_chart(chart, folder / "one.png"));
}

// The numbers, by twos, of the longest path of straight lines in it: others are letters and discs.
std::vector<double> places_of_curve(const std::string& svg) {
  std::vector<double> longest;
  for (std::size_t at = svg.find(" d=\"M"); at != std::string::npos; at = svg.find(" d=\"M", at + 1)) {
    std::string path = svg.substr(at + 4, svg.find('"', at + 4) - at - 4);
    if (path.find_first_of("CZ") != std::string::npos) continue;
    for (char& c : path) c = c == 'M' || c == 'L' ? ' ' : c;
    std::istringstream words(path);
    std::vector<double> places;
    for (double place = 0; words >> place;) places.push_back(place);
    if (places.size() > longest.size()) longest = std::move(places);
  }
  return longest;
}

// The distances between 1, 2 and 4 are equal on a scale of powers, and the dashes of a curve are drawn.
TEST_F(ChartTest, AScaleOfPowersAndDashesDrawOtherPictures) {
  const auto svg = [this](Scale scale, Stroke stroke) {
    Chart chart = chart_of({{"a", {{1, 1}, {2, 2}, {4, 3}}, stroke}});
    chart.threshold.reset();  // a dashed line
    chart.x_scale = scale;
    write_chart(chart, folder / "a.svg");
    return read_file(folder / "a.svg");
  };
  const std::string linear = svg(Scale::kLinear, Stroke::kSolid), powers = svg(Scale::kLog2, Stroke::kSolid);
  // 1, 2 and 3 over 1, 2 and 4: one straight line, of which only the ends are written.
  EXPECT_EQ(places_of_curve(powers).size(), 4u) << powers;
  EXPECT_EQ(places_of_curve(linear).size(), 6u) << linear;
  EXPECT_THAT(powers, ::testing::Not(::testing::HasSubstr("stroke-dasharray")));
  EXPECT_THAT(svg(Scale::kLog2, Stroke::kDashed), ::testing::HasSubstr("stroke-dasharray"));
}

TEST_F(ChartTest, ManyLongLabelsStillLeaveRoomForCurves) {
  std::vector<Curve> curves;
  for (int i = 0; i < 200; ++i) curves.push_back({std::string(40, 'n'), {{0, 1}, {10, 2}}});
  EXPECT_NO_THROW(write_chart(chart_of(curves), folder / "many.png"));
}

TEST_F(ChartTest, CurvesBehindTheEighthAreDashedSinceColorsComeAgain) {
  const auto is_dashed = [this](int count) {
    std::vector<Curve> curves;
    for (int i = 0; i < count; ++i) curves.push_back({"c", {{0, 1.0 * i}, {10, 2.0 * i}}});
    Chart chart = chart_of(std::move(curves));
    chart.threshold.reset();
    write_chart(chart, folder / "a.svg");
    return read_file(folder / "a.svg").find("stroke-dasharray") != std::string::npos;
  };
  EXPECT_FALSE(is_dashed(8));
  EXPECT_TRUE(is_dashed(9));
}

TEST_F(ChartTest, NoCurveLiesBehindTheBandOfAnother) {
  const Curve one{.label = "a", .points = {{0, 1}, {10, 2}}, .band = {{0, 0, 2}, {10, 1, 3}}};
  write_chart(chart_of({one, one}), folder / "a.svg");
  const std::string svg = read_file(folder / "a.svg");
  // Versions of cairo write this as an attribute or as a style.
  const std::size_t as_style = svg.rfind("fill-opacity:0.16;"), as_attribute = svg.rfind("fill-opacity=\"0.16\"");
  const std::size_t last_band = as_style != std::string::npos ? as_style : as_attribute;
  const std::size_t first_line = std::min(svg.find("stroke-width:2.2;"), svg.find("stroke-width=\"2.2\""));
  ASSERT_NE(last_band, std::string::npos);
  EXPECT_LT(last_band, first_line);
}

TEST_F(ChartTest, FourPanelsAreTwoColumns) {
  const auto size = [this](std::size_t panels) {
    write_charts(std::vector<Chart>(panels, chart_of({{"a", {{0, 1}, {10, 2}}}})), folder / "a.png", {300, 200});
    return size_of(read_file(folder / "a.png"));
  };
  EXPECT_EQ(size(3), std::make_pair(600, 1200));
  EXPECT_EQ(size(4), std::make_pair(1200, 800));
  EXPECT_EQ(size(5), std::make_pair(1200, 1200));
}

// Where letters stand, in their order: those of the threshold come after the axes, and there is no legend.
std::vector<Point> places_of_letters(const std::string& svg) {
  std::vector<Point> places;
  constexpr std::string_view kUse = "<use ";
  for (std::size_t at = svg.find(kUse); at != std::string::npos; at = svg.find(kUse, at + 1)) {
    const auto number = [&](const char* name) { return std::stod(svg.substr(svg.find(name, at) + 4)); };
    places.push_back({number(" x=\""), number(" y=\"")});
  }
  return places;
}

TEST_F(ChartTest, TheThresholdIsNamedWhereNoCurveRuns) {
  const auto label_of = [this](std::vector<Point> points) {
    write_chart(chart_of({{"a", std::move(points)}}), folder / "a.svg");
    return places_of_letters(read_file(folder / "a.svg")).back();
  };
  // A curve that comes from below and stays a little above the line, or a little below it: on the other side.
  const Point below = label_of({{0, 0}, {50, 480}, {100, 480}}), above = label_of({{0, 0}, {50, 470}, {100, 470}});
  EXPECT_GT(below.x, 600);
  EXPECT_GT(above.x, 600);
  EXPECT_GT(below.y, above.y + 10);
  // A curve that swings about the line at the right.
  std::vector<Point> swings{{0, 0}, {50, 300}};
  for (int i = 51; i <= 100; ++i) swings.push_back({1.0 * i, i % 2 == 0 ? 400.0 : 500.0});
  EXPECT_LT(label_of(swings).x, 200);
}

TEST_F(ChartTest, LabelsOfTicksKeepAwayFromThatOfTheAxis) {
  const auto leftmost = [this](double value) {
    Chart chart;
    chart.curves = {{"a", {{0, 0}, {10, value}}}};
    write_chart(chart, folder / "a.svg");
    double least = 1000;
    for (const Point& place : places_of_letters(read_file(folder / "a.svg"))) least = std::min(least, place.x);
    return least;
  };
  EXPECT_GE(leftmost(0.00012), 31);  // the axis has its label left of 24
  EXPECT_GE(leftmost(100), 31);
}

TEST_F(ChartTest, AnotherKindOfFileIsRefused) {
  EXPECT_THROW(write_chart(chart_of({}), folder / "a.jpg"), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.jpg"));
}

}  // namespace
}  // namespace tandem::app
