#include <algorithm>
#include <cmath>

#include "tandem/app/plot/chart.h"
#include "tandem/app/run/mean_interval.h"
#include "tandem/base/error.h"
#include "tandem/base/input_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::optional<Point> point_of(const JsonValue& line, std::string_view x, std::string_view y) {
  const JsonValue* x_value = line.find(x);
  const JsonValue* y_value = line.find(y);
  if (x_value == nullptr || y_value == nullptr || !x_value->is_number() || !y_value->is_number()) return std::nullopt;
  const Point point{x_value->as_double(), y_value->as_double()};
  return std::isfinite(point.x) && std::isfinite(point.y) ? std::optional(point) : std::nullopt;
}

// Takes any number of points and holds at most so many, evenly: when there are too many, every second one goes, and of
// those that follow as many.
class ThinPoints {
 public:
  explicit ThinPoints(std::size_t most) : most_(most) {}

  void add(const Point& point) {
    last_ = point;
    if (seen_++ % stride_ != 0) return;
    points_.push_back(point);
    if (points_.size() <= most_) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
    points_.resize(kept);
    stride_ *= 2;
  }
  // The last point is there in any case.
  std::vector<Point> take() && {
    if (seen_ > 0 && (seen_ - 1) % stride_ != 0) points_.push_back(last_);
    return std::move(points_);
  }

 private:
  const std::size_t most_;
  std::vector<Point> points_;
  Point last_;
  std::size_t seen_ = 0, stride_ = 1;
};

Point mean_of(const std::vector<Point>& points, std::size_t begin, std::size_t end) {
  Point sum;
  for (std::size_t i = begin; i < end; ++i) {
    sum.x += points[i].x;
    sum.y += points[i].y;
  }
  const auto count = static_cast<double>(end - begin);
  return {sum.x / count, sum.y / count};
}

}  // namespace

std::vector<Point> read_points(const std::filesystem::path& metrics, std::string_view x, std::string_view y,
                               std::size_t most) {
  LineReader lines(metrics);  // a line without an end, which is still being written, is none
  ThinPoints points(most);
  while (const std::optional<std::string_view> line = lines.next()) {
    try {
      if (const std::optional<Point> point = point_of(read_json(*line), x, y)) points.add(*point);
    } catch (const JsonError& error) {
      throw DataError(concat(metrics.string(), ":", lines.number(), ": no line of metrics: ", error.what()));
    }
  }
  return std::move(points).take();
}

// Prefix sums make the work independent of the window's width.
std::vector<Point> smooth(const std::vector<Point>& points, std::size_t half_window) {
  std::vector<double> sums(points.size() + 1, 0);  // sums[i]: of the first i values
  for (std::size_t i = 0; i < points.size(); ++i) sums[i + 1] = sums[i] + points[i].y;
  std::vector<Point> smoothed;
  smoothed.reserve(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    // The window shrinks alike on both sides near an end.
    const std::size_t half = std::min({half_window, i, points.size() - 1 - i});
    const std::size_t begin = i - half, end = i + half + 1;
    smoothed.push_back({points[i].x, (sums[end] - sums[begin]) / static_cast<double>(end - begin)});
  }
  return smoothed;
}

namespace {

// The value at `x` of a curve that is straight between its points; `x` lies between the first and the last.
double value_at(const std::vector<Point>& points, double x) {
  const auto right = std::ranges::lower_bound(points, x, {}, &Point::x);
  if (right == points.begin()) return right->y;
  if (right == points.end()) return points.back().y;
  const auto left = right - 1;
  const double width = right->x - left->x;
  return width > 0 ? left->y + (right->y - left->y) * (x - left->x) / width : right->y;
}

}  // namespace

Curve mean_curve(const std::vector<std::vector<Point>>& curves, std::string label) {
  constexpr int kPlaces = 200;
  double from = curves.front().front().x, to = curves.front().back().x;
  for (const std::vector<Point>& points : curves) {
    from = std::max(from, points.front().x);
    to = std::min(to, points.back().x);
  }
  Curve mean{.label = std::move(label), .points = {}};
  if (from > to) return mean;
  std::vector<double> values(curves.size());
  for (int place = 0; place < kPlaces; ++place) {
    const double x = from + (to - from) * place / (kPlaces - 1);
    std::ranges::transform(curves, values.begin(), [x](const auto& points) { return value_at(points, x); });
    const MeanInterval of = mean_interval(values);
    mean.points.push_back({x, of.mean});
    mean.band.push_back({x, of.mean - of.half, of.mean + of.half});
  }
  return mean;
}

std::vector<Point> thin_out(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most || most < 3) return points;
  const std::size_t inner = points.size() - 2, parts = most - 2;
  std::vector<Point> thin{points.front()};
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = 1 + part * inner / parts, end = 1 + (part + 1) * inner / parts;
    thin.push_back(mean_of(points, begin, end));
  }
  thin.push_back(points.back());
  return thin;
}

}  // namespace tandem::app
