// app/plot/chart.h: a picture of curves, as PNG or SVG, and the points of a run that it shows (curve.cc).
//
// Threads: free functions on values. Errors: ConfigError for a file name of another kind, CheckpointError when the file
// cannot be written.
//
// Drawing needs no display: pictures are made in memory and then written at once. The y axis is always linear. Reading
// points needs no lock on the run folder, and a run that is still being written is fine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::app {

/// A value of a curve, in the units of the chart's axes.
struct Point {
  double x = 0, y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};

/// Dashes tell calculated curves from measured ones of the same color. There are eight colors: curves of a chart that
/// come behind the eighth, and have a color of their own, are dashed in any case.
enum class Stroke { kSolid, kDashed };

/// How far values lie around a curve at `x`.
struct Spread {
  double x = 0, low = 0, high = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

/// `label` stands in the legend.
struct Curve {
  std::string label;
  std::vector<Point> points;  // x rises
  Stroke stroke = Stroke::kSolid;
  std::optional<std::size_t> color_of = {};  // the curve, by number, whose color it has; nothing: one of its own
  std::vector<Spread> band = {};             // drawn pale behind the curve; x rises
};

enum class Scale {
  kLinear,  // from zero
  kLog2,    // of values from 1 on: twice as many is as far everywhere
};

/// Curves are drawn in their order, later ones over earlier ones, and all of them over all bands; a legend appears from
/// two curves on.
struct Chart {
  std::string title, subtitle;
  std::string x_label, y_label;
  std::optional<double> threshold = {};  // a line across, at which the task counts as solved
  std::vector<Curve> curves = {};
  Scale x_scale = Scale::kLinear;
  /// Points before and after each over which the bold line is a mean; nothing: a sixtieth of the curve's.
  std::optional<std::int64_t> half_window = {};
};

/// The size of a picture, in points of 1/72 inch; PNG has two pixels a point.
struct ChartSize {
  double width = 840, height = 470;
};

/// Writes the picture to `file`, whole or not at all; its name ends in .png or .svg. The format follows the name's
/// ending. Several charts stand below each other, from four on in two columns, each of that size. Throws RunError when
/// cairo fails.
void write_charts(const std::vector<Chart>& charts, const std::filesystem::path& file, const ChartSize& size = {});
inline void write_chart(const Chart& chart, const std::filesystem::path& file, const ChartSize& size = {}) {
  write_charts({chart}, file, size);
}

/// Fields `x` and `y` of the lines of a metrics.jsonl. Lines without a number in either are left out, and so is an
/// unfinished last line, since the run may still be going on. Of more than `most` points, as many are left out evenly
/// as it takes; the last one never. Throws CheckpointError when the file cannot be read and DataError when another line
/// is no JSON.
[[nodiscard]] std::vector<Point> read_points(const std::filesystem::path& metrics, std::string_view x,
                                             std::string_view y, std::size_t most = std::size_t{1} << 22);

/// Each point as the mean of those up to `half_window` before and after it, as many on either side: the first and the
/// last are as they are, and a curve that rises is not lifted at its start.
[[nodiscard]] std::vector<Point> smooth(const std::vector<Point>& points, std::size_t half_window);

/// The mean of curves, with the 95 % confidence interval of that mean (Student's t) as its band, at 200 places of the
/// part of the x axis that all of them cover; between their points they are straight. `curves`: at least two, none of
/// them empty. Empty where they have no part in common.
[[nodiscard]] Curve mean_curve(const std::vector<std::vector<Point>>& curves, std::string label);

/// At most `most` points: the mean of each run of neighbours, and the first and last as they are. Returns the points
/// unchanged when there are no more than `most`, or when `most` is below 3.
[[nodiscard]] std::vector<Point> thin_out(const std::vector<Point>& points, std::size_t most);

}  // namespace tandem::app
