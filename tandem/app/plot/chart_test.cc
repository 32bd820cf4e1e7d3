#include "tandem/app/plot/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
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

TEST_F(ChartTest, AnotherKindOfFileIsRefused) {
  EXPECT_THROW(write_chart(chart_of({}), folder / "a.jpg"), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(folder / "a.jpg"));
}

}  // namespace
}  // namespace tandem::app
