// A Drawing first fixes the frame, from all points, the height of the legend and the width of the ticks' labels, and
// places all curves in it. Then it draws from the back to the front: titles, axes, threshold, what is pale of all
// curves, their bold lines, the threshold's label, legend. All distances are in points.
#include "tandem/app/plot/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tandem/app/plot/axis_ticks.h"
#include "tandem/app/plot/sheet.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr Color kInk{0.13, 0.15, 0.18}, kSoft{0.42, 0.45, 0.50}, kGrid{0.90, 0.91, 0.93}, kGoal{0.16, 0.55, 0.38};
// Told apart by people who see colours differently (Okabe and Ito 2008), the blue first.
constexpr std::array<Color, 8> kCurveColors{{{0.10, 0.36, 0.70},
                                             {0.84, 0.37, 0.00},
                                             {0.00, 0.62, 0.45},
                                             {0.80, 0.47, 0.65},
                                             {0.34, 0.71, 0.91},
                                             {0.90, 0.62, 0.00},
                                             {0.45, 0.45, 0.45},
                                             {0.55, 0.20, 0.60}}};

constexpr int kMostTicks = 9, kMostTicksUp = 6;

Color color_of(const Chart& chart, std::size_t curve) {
  return kCurveColors[chart.curves[curve].color_of.value_or(curve) % kCurveColors.size()];
}

// Colors come again after the last one, and dashes tell the curves apart then.
Stroke stroke_of(const Chart& chart, std::size_t curve) {
  const Curve& its = chart.curves[curve];
  return !its.color_of && curve >= kCurveColors.size() ? Stroke::kDashed : its.stroke;
}

// Where numbers lie in the picture.
struct Frame {
  AxisRange x, y;  // x as scaled
  Point upper_left, lower_right;

  [[nodiscard]] double across(double scaled) const {
    return upper_left.x + (scaled - x.low) / (x.high - x.low) * (lower_right.x - upper_left.x);
  }
  // Pictures count y downwards, so the largest value is at the upper edge.
  [[nodiscard]] double up(double value) const {
    return lower_right.y - (value - y.low) / (y.high - y.low) * (lower_right.y - upper_left.y);
  }
};

// Values below 1 have no place on a logarithmic axis from 1 on.
double scaled(Scale scale, double x) { return scale == Scale::kLog2 ? std::log2(std::max(1.0, x)) : x; }

// The next tick where a run ends just before it, as runs do that stop at the first update after their last step.
double up_to_tick(double last) {
  constexpr double kNear = 0.03;
  const AxisTicks ticks = axis_ticks(0, last * (1 + kNear), kMostTicks);
  return std::max(last, ticks.values.back());
}

struct Box {
  double left, top, right, bottom;
};

// Whether some part of the straight line between the two points lies within the box: what each side leaves of the
// line, from share `from` to share `to` of its length (Liang and Barsky).
bool crosses(const Box& box, const Point& start, const Point& end) {
  double from = 0, to = 1;
  const auto cut = [&](double step, double room) {  // keeps the shares s with s * step <= room
    if (step == 0) return room >= 0;
    step < 0 ? from = std::max(from, room / step) : to = std::min(to, room / step);
    return from <= to;
  };
  const double dx = end.x - start.x, dy = end.y - start.y;
  return cut(-dx, start.x - box.left) && cut(dx, box.right - start.x) && cut(-dy, start.y - box.top) &&
         cut(dy, box.bottom - start.y);
}

// Ranges over all points, with the threshold in sight.
Frame frame_of(const Chart& chart) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  double last_x = 0, first_x = kFar, low = kFar, high = -kFar;
  for (const Curve& curve : chart.curves) {
    for (const Point& point : curve.points) {
      first_x = std::min(first_x, scaled(chart.x_scale, point.x));
      last_x = std::max(last_x, scaled(chart.x_scale, point.x));
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
    for (const Spread& spread : curve.band) {
      low = std::min(low, spread.low);
      high = std::max(high, spread.high);
    }
  }
  if (chart.threshold) {
    low = std::min(low, *chart.threshold);
    high = std::max(high, *chart.threshold);
  }
  Frame frame;
  if (low <= high) frame.y = axis_range(low, high);
  const bool ends_at_tick = chart.x_scale == Scale::kLinear && last_x > 0;
  frame.x = {std::min(0.0, first_x), ends_at_tick ? up_to_tick(last_x) : last_x > 0 ? last_x : 1};
  return frame;
}

// A curve as places in the picture.
struct PlacedCurve {
  std::vector<Point> band, pale, bold;  // corners of the band, or else the values; and the smoothed line
};

class Drawing {
 public:
  Drawing(const Chart& chart, const ChartSize& size, Sheet& sheet)
      : chart_(chart), size_(size), sheet_(sheet), frame_(frame_of(chart)) {
    constexpr double kRight = 28, kTop = 68, kBottom = 54;
    y_ticks_ = axis_ticks(frame_.y.low, frame_.y.high, kMostTicksUp);
    frame_.upper_left = {left_of_frame(), kTop};
    frame_.lower_right = {size.width - kRight, size.height - kBottom};
    if (chart.curves.size() > 1) frame_.upper_left.y = lay_out_legend(kTop);
    place_curves();
  }

  void draw() {
    titles();
    axes();
    threshold_line();
    curves();
    threshold_label();
    legend();
  }

 private:
  // Leaves room for the labels of the ticks beside that of the axis.
  [[nodiscard]] double left_of_frame() {
    constexpr double kUsual = 68, kAxisLabel = 32;
    double widest = 0;
    for (const std::string& label : y_ticks_.labels) widest = std::max(widest, sheet_.text_width(label, kTickText));
    return std::max(kUsual, kAxisLabel + widest + kTickGap);
  }

  void titles() {
    sheet_.text({frame_.upper_left.x, 30}, chart_.title, {16, kInk, FontWeight::kBold});
    sheet_.text({frame_.upper_left.x, 49}, chart_.subtitle, {11, kSoft});
  }

  void axes() {
    const double left = frame_.upper_left.x, right = frame_.lower_right.x, bottom = frame_.lower_right.y;
    for (std::size_t i = 0; i < y_ticks_.values.size(); ++i) {
      const double at = frame_.up(y_ticks_.values[i]);
      sheet_.line({left, at}, {right, at}, 1, kGrid);
      sheet_.text({left - kTickGap, at + 4}, y_ticks_.labels[i],
                  {kTickText.size, kSoft, kTickText.weight, Align::kRight});
    }
    sheet_.line({left, bottom}, {right, bottom}, 1, kSoft);
    const AxisTicks x = chart_.x_scale == Scale::kLog2 ? power_ticks(frame_.x.low, frame_.x.high, kMostTicks)
                                                       : axis_ticks(frame_.x.low, frame_.x.high, kMostTicks);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const double at = frame_.across(x.values[i]);
      sheet_.line({at, bottom}, {at, bottom + 4}, 1, kSoft);
      sheet_.text({at, bottom + 18}, x.labels[i], {kTickText.size, kSoft, kTickText.weight, Align::kCenter});
    }
    sheet_.text({right, bottom + 40}, chart_.x_label, {11.5, kInk, FontWeight::kNormal, Align::kRight});
    sheet_.rotated_text({18, frame_.upper_left.y}, chart_.y_label, {11.5, kInk, FontWeight::kNormal, Align::kRight});
  }

  void threshold_line() {
    if (!chart_.threshold) return;
    const double at = frame_.up(*chart_.threshold);
    sheet_.line({frame_.upper_left.x, at}, {frame_.lower_right.x, at}, 1.2, kGoal, Stroke::kDashed);
  }

  // At the place by the line that the fewest curves cross, first of all on the side where no curve ends; where lines
  // cross it all the same, on a ground of its own.
  void threshold_label() {
    if (!chart_.threshold) return;
    constexpr double kGap = 6, kAbove = -5, kBelow = 14;
    const std::string text = concat("solved at ", bound_text(*chart_.threshold));
    const double width = sheet_.text_width(text, kThresholdText), at = frame_.up(*chart_.threshold);
    const double left = frame_.upper_left.x + kGap, right = frame_.lower_right.x - kGap - width;
    const bool reached = std::ranges::any_of(chart_.curves, [this](const Curve& curve) {
      return !curve.points.empty() && curve.points.back().y >= *chart_.threshold;
    });
    std::optional<Box> best;
    std::size_t fewest = 0;
    for (const double x : {right, left, (left + right) / 2}) {
      for (const double down : {reached ? kBelow : kAbove, reached ? kAbove : kBelow}) {
        const Box box{x - 3, at + down - 10, x + width + 3, at + down + 3};
        if (box.bottom > frame_.lower_right.y) continue;
        const std::size_t crossed = lines_across(box);
        if (best && crossed >= fewest) continue;
        best = box;
        fewest = crossed;
      }
    }
    if (!best) return;
    if (fewest > 0) {
      sheet_.polygon(std::array<Point, 4>{Point{best->left, best->top}, Point{best->right, best->top},
                                          Point{best->right, best->bottom}, Point{best->left, best->bottom}},
                     {1, 1, 1, 0.8});
    }
    sheet_.text({best->left + 3, best->bottom - 3}, text, kThresholdText);
  }

  // Lines of curves, each of which counts more than the lines of the axis.
  [[nodiscard]] std::size_t lines_across(const Box& box) const {
    std::size_t count = 0;
    for (const double value : y_ticks_.values) {
      const double at = frame_.up(value);
      count += at > box.top && at < box.bottom ? 1 : 0;
    }
    const std::size_t more = y_ticks_.values.size() + 1;
    for (const PlacedCurve& curve : placed_) {
      for (const std::vector<Point>* line : {&curve.pale, &curve.bold}) {
        for (std::size_t i = 1; i < line->size(); ++i) count += crosses(box, (*line)[i - 1], (*line)[i]) ? more : 0;
      }
    }
    return count;
  }

  [[nodiscard]] std::vector<Point> placed(const std::vector<Point>& points) const {
    std::vector<Point> places;
    places.reserve(points.size());
    for (const Point& point : points)
      places.push_back({frame_.across(scaled(chart_.x_scale, point.x)), frame_.up(point.y)});
    return places;
  }

  // Curves are thinned out, since more points than pixels only make the file larger.
  void place_curves() {
    constexpr std::size_t kMostPoints = 1200;
    for (const Curve& curve : chart_.curves) {
      PlacedCurve& its = placed_.emplace_back();
      if (curve.points.empty()) continue;
      if (!curve.band.empty()) {
        std::vector<Point> corners;
        for (const Spread& spread : curve.band) corners.push_back({spread.x, spread.low});
        for (auto spread = curve.band.rbegin(); spread != curve.band.rend(); ++spread)
          corners.push_back({spread->x, spread->high});
        its.band = placed(corners);
      } else {
        its.pale = placed(thin_out(curve.points, kMostPoints));
      }
      const auto half_window =
          static_cast<std::size_t>(chart_.half_window.value_or(static_cast<std::int64_t>(curve.points.size() / 60)));
      its.bold = placed(thin_out(smooth(curve.points, half_window), kMostPoints));
    }
  }

  // Each curve is drawn twice: its band or the values themselves, pale, and a smoothed line. All that is pale comes
  // first, so that no curve lies behind another's band.
  void curves() {
    // The clip leaves some room at the right, where the last point's disc may cross the frame.
    sheet_.begin_clip({frame_.upper_left.x, frame_.upper_left.y - 6}, {size_.width, frame_.lower_right.y + 2});
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const Color color = color_of(chart_, i);
      if (!placed_[i].band.empty()) sheet_.polygon(placed_[i].band, {color.red, color.green, color.blue, 0.16});
      if (!placed_[i].pale.empty())
        sheet_.polyline(placed_[i].pale, 1, {color.red, color.green, color.blue, 0.35}, stroke_of(chart_, i));
    }
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (placed_[i].bold.empty()) continue;
      sheet_.polyline(placed_[i].bold, 2.2, color_of(chart_, i), stroke_of(chart_, i));
      sheet_.disc(placed_[i].bold.back(), 3.6, color_of(chart_, i));
    }
    sheet_.end_clip();
  }

  // In rows below the titles. Returns where the curves may begin.
  double lay_out_legend(double top) {
    constexpr double kGap = 20;
    double x = frame_.upper_left.x, y = top;
    for (std::size_t i = 0; i < std::min(chart_.curves.size(), kMostLabels); ++i) {
      const double width = kStroke + 6 + sheet_.text_width(label(i), kLegendText);
      if (x + width > frame_.lower_right.x && x > frame_.upper_left.x) {
        x = frame_.upper_left.x;
        y += 16;
      }
      legend_places_.push_back({x, y});
      x += width + kGap;
    }
    return y + 12;
  }

  void legend() {
    for (std::size_t i = 0; i < legend_places_.size(); ++i) {
      const Point at = legend_places_[i];
      sheet_.line({at.x, at.y - 3.5}, {at.x + kStroke, at.y - 3.5}, 2.2, color_of(chart_, i), stroke_of(chart_, i));
      sheet_.text({at.x + kStroke + 6, at.y}, label(i), kLegendText);
    }
  }

  // The last label that fits stands for all further curves.
  [[nodiscard]] std::string label(std::size_t i) const {
    const std::string& label = chart_.curves[i].label;
    const bool is_cut = i + 1 == kMostLabels && chart_.curves.size() > kMostLabels;
    return is_cut ? concat(label, " and ", chart_.curves.size() - kMostLabels, " more") : label;
  }

  static constexpr std::size_t kMostLabels = 12;
  static constexpr double kStroke = 16;
  static constexpr double kTickGap = 8;
  static constexpr TextStyle kLegendText{10.5, kInk}, kTickText{11, kSoft}, kThresholdText{10.5, kGoal};

  const Chart& chart_;
  const ChartSize size_;
  Sheet& sheet_;
  Frame frame_;
  AxisTicks y_ticks_;
  std::vector<PlacedCurve> placed_;   // by curve
  std::vector<Point> legend_places_;  // base lines; empty for a single curve
};

}  // namespace

void write_charts(const std::vector<Chart>& charts, const std::filesystem::path& file, const ChartSize& size) {
  const std::string suffix = file.extension().string();
  if (suffix != ".png" && suffix != ".svg") {
    throw ConfigError(concat(file.string(), ": a picture's name must end in .png or .svg"));
  }
  const PictureFormat format = suffix == ".png" ? PictureFormat::kPng : PictureFormat::kSvg;
  // A tall picture of many panels is hard to look at.
  constexpr std::size_t kMostInAColumn = 3;
  const std::size_t columns = charts.size() > kMostInAColumn ? 2 : 1, rows = (charts.size() + columns - 1) / columns;
  Sheet sheet(format, size.width * static_cast<double>(columns), size.height * static_cast<double>(rows));
  for (std::size_t i = 0; i < charts.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    sheet.begin_shift({size.width * static_cast<double>(column), size.height * static_cast<double>(row)});
    Drawing(charts[i], size, sheet).draw();
    sheet.end_shift();
  }
  write_file(file, sheet.finish());
}

}  // namespace tandem::app
