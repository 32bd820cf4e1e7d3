#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/simulate/scale.h"
#include "tandem/base/json_reader.h"

namespace tandem::app {
namespace {

using ::testing::HasSubstr;

ScaleFindings findings() {
  return {.options = {},
          .measured = {{1, {400, 400, 400}}, {8, {1600, 2400, 3200}}},
          .modelled = {{1, {500, 500, 500}}, {128, {32'000, 48'000, 64'000}}}};
}

TEST(ScaleReportTest, EfficiencyIsAgainstOneRankOfItsOwnKind) {
  const std::string text = to_text(findings());
  EXPECT_THAT(text, HasSubstr("      8          1600  0.500          2400  0.750          3200  1.000\n"));
  EXPECT_THAT(text, HasSubstr("    128         32000  0.500         48000  0.750         64000  1.000\n"));
  const JsonValue json = read_json(to_json(findings()));
  const JsonValue& of_eight = json.at("measured").as_array().at(1);
  EXPECT_EQ(of_eight.at("ranks").as_int64(), 8);
  EXPECT_EQ(of_eight.at("preempt").at("efficiency").as_double(), 0.75);
  EXPECT_EQ(json.at("modelled").as_array().at(1).at("wait_all").at("samples_per_s").as_double(), 32'000);
}

TEST(ScaleReportTest, ThePictureHasACurveAPolicyMeasuredAndModelled) {
  const Chart chart = chart_of(findings());
  ASSERT_EQ(chart.curves.size(), 6u);
  EXPECT_EQ(chart.curves[1].label, "preempt");
  EXPECT_EQ(chart.curves[1].points.back(), (Point{8, 0.75}));
  EXPECT_EQ(chart.curves[4].label, "preempt, model");
}

}  // namespace
}  // namespace tandem::app
