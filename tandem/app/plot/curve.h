// app/plot/curve.h: the points of a run that a picture shows.
//
// Threads: free functions on values.
//
// Reading needs no lock on the run folder, and a run that is still being written is fine.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::app {

struct Point {
  double x = 0, y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};

enum class Stroke { kSolid, kDashed };

/// `label` stands in the legend.
struct Curve {
  std::string label;
  std::vector<Point> points;  // x rises
  Stroke stroke = Stroke::kSolid;
  std::optional<std::size_t> color_of = {};  // the curve, by number, whose color it has; nothing: one of its own
};

/// Fields `x` and `y` of the lines of a metrics.jsonl. Lines without a number in either are left out, and so is an
/// unfinished last line, since the run may still be going on. Throws CheckpointError when the file cannot be read and
/// DataError when another line is no JSON.
[[nodiscard]] std::vector<Point> read_points(const std::filesystem::path& metrics, std::string_view x,
                                             std::string_view y);

/// Each point as the mean of those up to `half_window` before and after it, as many on either side: the first and the
/// last are as they are, and a curve that rises is not lifted at its start.
[[nodiscard]] std::vector<Point> smooth(const std::vector<Point>& points, std::size_t half_window);

/// At most `most` points: the mean of each run of neighbours, and the first and last as they are. Returns the points
/// unchanged when there are no more than `most`, or when `most` is below 3.
[[nodiscard]] std::vector<Point> thin_out(const std::vector<Point>& points, std::size_t most);

}  // namespace tandem::app
