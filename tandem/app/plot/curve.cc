#include <algorithm>
#include <cmath>

#include "tandem/app/plot/chart.h"
#include "tandem/app/run/mean_interval.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

void add_point(const JsonValue& line, std::string_view x, std::string_view y, std::vector<Point>& points) {
  const JsonValue* x_value = line.find(x);
  const JsonValue* y_value = line.find(y);
  if (x_value == nullptr || y_value == nullptr || !x_value->is_number() || !y_value->is_number()) return;
  const Point point{x_value->as_double(), y_value->as_double()};
  if (std::isfinite(point.x) && std::isfinite(point.y)) points.push_back(point);
}

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

std::vector<Point> read_points(const std::filesystem::path& metrics, std::string_view x, std::string_view y) {
  const std::string text = read_file(metrics);
  std::vector<Point> points;
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    // A line without an end is still being written.
    if (end == std::string::npos) break;
    try {
      add_point(read_json(std::string_view(text).substr(begin, end - begin)), x, y, points);
    } catch (const JsonError& error) {
      throw DataError(concat(metrics.string(), ":", number, ": no line of metrics: ", error.what()));
    }
    begin = end + 1;
  }
  return points;
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
