// A Canvas draws with cairo. A Drawing first fixes the frame, from all points and the height of the legend, and then
// draws from the back to the front: titles, axes, threshold, curves, legend. All distances are in points.
#include "tandem/app/plot/chart.h"

#include <cairo-svg.h>
#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "tandem/app/plot/axis_ticks.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

struct Color {
  double red = 0, green = 0, blue = 0, alpha = 1;
};

// PNG is drawn with two pixels a point, SVG keeps the lines and texts as such.
enum class PictureFormat { kPng, kSvg };
enum class FontWeight { kNormal, kBold };
enum class Align { kLeft, kCenter, kRight };  // of the text, at the given x

// `size` is in points.
struct TextStyle {
  double size = 11;
  Color color = {};
  FontWeight weight = FontWeight::kNormal;
  Align align = Align::kLeft;
};

// Lines, discs and text on a cairo surface. Coordinates are in points of 1/72 inch, y grows downwards. Errors of cairo
// stick to the surface, so drawing calls report none; finish() does. It cannot be copied or moved: cairo holds a
// pointer to its bytes.
class Canvas {
 public:
  // White, `width` x `height` points, the origin at the upper left.
  Canvas(PictureFormat format, double width, double height) : format_(format) {
    if (format == PictureFormat::kSvg) {
      surface_ = cairo_svg_surface_create_for_stream(append, &bytes_, width, height);
    } else {
      surface_ = cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(std::lround(width * kPixels)),
                                            static_cast<int>(std::lround(height * kPixels)));
      cairo_surface_set_device_scale(surface_, kPixels, kPixels);
    }
    cairo_ = cairo_create(surface_);
    set_color({1, 1, 1});
    cairo_paint(cairo_);
    cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cairo_, CAIRO_LINE_CAP_ROUND);
  }
  ~Canvas() {
    cairo_destroy(cairo_);
    cairo_surface_destroy(surface_);
  }
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  // Lines have round ends and joins; `width` is in points.
  void polyline(std::span<const Point> points, double width, Color color, Stroke stroke = Stroke::kSolid) {
    constexpr std::array<double, 2> kDashes{4, 4};
    set_color(color);
    cairo_set_line_width(cairo_, width);
    if (stroke == Stroke::kDashed) cairo_set_dash(cairo_, kDashes.data(), static_cast<int>(kDashes.size()), 0);
    cairo_new_path(cairo_);
    for (const Point& point : points) cairo_line_to(cairo_, point.x, point.y);
    cairo_stroke(cairo_);
    // Dashes are a state of the cairo context and must not reach the next line.
    cairo_set_dash(cairo_, nullptr, 0, 0);
  }
  void line(Point from, Point to, double width, Color color, Stroke stroke = Stroke::kSolid) {
    polyline(std::array<Point, 2>{from, to}, width, color, stroke);
  }
  void disc(Point center, double radius, Color color) {
    set_color(color);
    cairo_new_path(cairo_);
    cairo_arc(cairo_, center.x, center.y, radius, 0, 2 * std::numbers::pi);
    cairo_fill(cairo_);
  }
  // `at`: the base line.
  void text(Point at, std::string_view text, const TextStyle& style) {
    const double width = text_width(text, style);
    const double share = style.align == Align::kLeft ? 0 : style.align == Align::kCenter ? 0.5 : 1;
    set_color(style.color);
    cairo_move_to(cairo_, at.x - share * width, at.y);
    cairo_show_text(cairo_, std::string(text).c_str());
  }
  // Draws text that is read from below.
  void rotated_text(Point at, std::string_view text, const TextStyle& style) {
    cairo_save(cairo_);
    cairo_translate(cairo_, at.x, at.y);
    cairo_rotate(cairo_, -std::numbers::pi / 2);
    this->text({0, 0}, text, style);
    cairo_restore(cairo_);
  }
  // Returns the distance in points by which the text moves the pen.
  [[nodiscard]] double text_width(std::string_view text, const TextStyle& style) {
    cairo_select_font_face(cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           style.weight == FontWeight::kBold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo_, style.size);
    cairo_text_extents_t extents{};
    cairo_text_extents(cairo_, std::string(text).c_str(), &extents);
    return extents.x_advance;
  }

  void polygon(std::span<const Point> corners, Color color) {
    set_color(color);
    cairo_new_path(cairo_);
    for (const Point& corner : corners) cairo_line_to(cairo_, corner.x, corner.y);
    cairo_close_path(cairo_);
    cairo_fill(cairo_);
  }

  // What is drawn from now on lies so much lower than its coordinates say.
  void move_down(double points) { cairo_translate(cairo_, 0, points); }

  // Whatever is drawn until end_clip() shows only within the rectangle.
  void begin_clip(Point upper_left, Point lower_right) {
    cairo_save(cairo_);
    cairo_rectangle(cairo_, upper_left.x, upper_left.y, lower_right.x - upper_left.x, lower_right.y - upper_left.y);
    cairo_clip(cairo_);
  }
  // Clips nest; each begin_clip() needs one end_clip().
  void end_clip() { cairo_restore(cairo_); }

  // The picture as the bytes of its file. Call it once, last. Throws RunError when cairo failed.
  // An SVG is complete only after cairo_surface_finish(), a PNG is written out before it.
  [[nodiscard]] std::string finish() {
    check(cairo_status(cairo_));
    if (format_ == PictureFormat::kPng) check(cairo_surface_write_to_png_stream(surface_, append, &bytes_));
    cairo_surface_finish(surface_);
    check(cairo_surface_status(surface_));
    return std::move(bytes_);
  }

 private:
  // Cairo calls it with each piece of a file; `bytes` is the canvas's string.
  static cairo_status_t append(void* bytes, const unsigned char* data, unsigned int size) {
    static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), size);
    return CAIRO_STATUS_SUCCESS;
  }
  static void check(cairo_status_t status) {
    if (status == CAIRO_STATUS_SUCCESS) return;
    throw RunError(concat("the picture could not be drawn: cairo says: ", cairo_status_to_string(status)));
  }
  void set_color(Color color) { cairo_set_source_rgba(cairo_, color.red, color.green, color.blue, color.alpha); }

  static constexpr double kPixels = 2;  // of a PNG, a point

  const PictureFormat format_;
  std::string bytes_;  // of an SVG, as it is drawn
  cairo_surface_t* surface_ = nullptr;
  cairo_t* cairo_ = nullptr;
};

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

constexpr int kMostTicks = 9;

Color color_of(const Chart& chart, std::size_t curve) {
  return kCurveColors[chart.curves[curve].color_of.value_or(curve) % kCurveColors.size()];
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

std::string threshold_text(double threshold) {
  std::string text = value_text(threshold);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return "solved at " + text;
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

class Drawing {
 public:
  Drawing(const Chart& chart, const ChartSize& size, Canvas& canvas)
      : chart_(chart), size_(size), canvas_(canvas), frame_(frame_of(chart)) {
    constexpr double kLeft = 68, kRight = 28, kTop = 68, kBottom = 54;
    frame_.upper_left = {kLeft, kTop};
    frame_.lower_right = {size.width - kRight, size.height - kBottom};
    if (chart.curves.size() > 1) frame_.upper_left.y = lay_out_legend(kTop);
  }

  void draw() {
    titles();
    axes();
    threshold();
    curves();
    legend();
  }

 private:
  void titles() {
    canvas_.text({frame_.upper_left.x, 30}, chart_.title, {16, kInk, FontWeight::kBold});
    canvas_.text({frame_.upper_left.x, 49}, chart_.subtitle, {11, kSoft});
  }

  void axes() {
    constexpr TextStyle kLabel{11, kSoft};
    const double left = frame_.upper_left.x, right = frame_.lower_right.x, bottom = frame_.lower_right.y;
    const AxisTicks y = axis_ticks(frame_.y.low, frame_.y.high, 6);
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      const double at = frame_.up(y.values[i]);
      canvas_.line({left, at}, {right, at}, 1, kGrid);
      canvas_.text({left - 8, at + 4}, y.labels[i], {kLabel.size, kLabel.color, kLabel.weight, Align::kRight});
    }
    canvas_.line({left, bottom}, {right, bottom}, 1, kSoft);
    const AxisTicks x = chart_.x_scale == Scale::kLog2 ? power_ticks(frame_.x.low, frame_.x.high, kMostTicks)
                                                       : axis_ticks(frame_.x.low, frame_.x.high, kMostTicks);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const double at = frame_.across(x.values[i]);
      canvas_.line({at, bottom}, {at, bottom + 4}, 1, kSoft);
      canvas_.text({at, bottom + 18}, x.labels[i], {kLabel.size, kLabel.color, kLabel.weight, Align::kCenter});
    }
    canvas_.text({right, bottom + 40}, chart_.x_label, {11.5, kInk, FontWeight::kNormal, Align::kRight});
    canvas_.rotated_text({18, frame_.upper_left.y}, chart_.y_label, {11.5, kInk, FontWeight::kNormal, Align::kRight});
  }

  void threshold() {
    if (!chart_.threshold) return;
    const double at = frame_.up(*chart_.threshold);
    canvas_.line({frame_.upper_left.x, at}, {frame_.lower_right.x, at}, 1.2, kGoal, Stroke::kDashed);
    // On the side of the line where no curve ends.
    const bool reached = std::ranges::any_of(chart_.curves, [this](const Curve& curve) {
      return !curve.points.empty() && curve.points.back().y >= *chart_.threshold;
    });
    canvas_.text({frame_.lower_right.x - 6, reached ? at + 14 : at - 5}, threshold_text(*chart_.threshold),
                 {10.5, kGoal, FontWeight::kNormal, Align::kRight});
  }

  [[nodiscard]] std::vector<Point> placed(const std::vector<Point>& points) const {
    std::vector<Point> places;
    places.reserve(points.size());
    for (const Point& point : points)
      places.push_back({frame_.across(scaled(chart_.x_scale, point.x)), frame_.up(point.y)});
    return places;
  }

  // Each curve is drawn twice: its band or the values themselves, pale, and a smoothed line over them. Both are thinned
  // out, since more points than pixels only make the file larger.
  void curves() {
    constexpr std::size_t kMostPoints = 1200;
    // The clip leaves some room at the right, where the last point's disc may cross the frame.
    canvas_.begin_clip({frame_.upper_left.x, frame_.upper_left.y - 6}, {size_.width, frame_.lower_right.y + 2});
    for (std::size_t i = 0; i < chart_.curves.size(); ++i) {
      const std::vector<Point>& points = chart_.curves[i].points;
      if (points.empty()) continue;
      const Color color = color_of(chart_, i);
      const Stroke stroke = chart_.curves[i].stroke;
      if (const std::vector<Spread>& band = chart_.curves[i].band; !band.empty()) {
        std::vector<Point> corners;
        for (const Spread& spread : band) corners.push_back({spread.x, spread.low});
        for (auto spread = band.rbegin(); spread != band.rend(); ++spread) corners.push_back({spread->x, spread->high});
        canvas_.polygon(placed(corners), {color.red, color.green, color.blue, 0.16});
      } else {
        canvas_.polyline(placed(thin_out(points, kMostPoints)), 1, {color.red, color.green, color.blue, 0.35}, stroke);
      }
      const auto half_window =
          static_cast<std::size_t>(chart_.half_window.value_or(static_cast<std::int64_t>(points.size() / 60)));
      const std::vector<Point> smoothed = placed(thin_out(smooth(points, half_window), kMostPoints));
      canvas_.polyline(smoothed, 2.2, color, stroke);
      canvas_.disc(smoothed.back(), 3.6, color);
    }
    canvas_.end_clip();
  }

  // In rows below the titles. Returns where the curves may begin.
  double lay_out_legend(double top) {
    constexpr double kGap = 20;
    double x = frame_.upper_left.x, y = top;
    for (std::size_t i = 0; i < std::min(chart_.curves.size(), kMostLabels); ++i) {
      const double width = kStroke + 6 + canvas_.text_width(label(i), kLegendText);
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
      canvas_.line({at.x, at.y - 3.5}, {at.x + kStroke, at.y - 3.5}, 2.2, color_of(chart_, i), chart_.curves[i].stroke);
      canvas_.text({at.x + kStroke + 6, at.y}, label(i), kLegendText);
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
  static constexpr TextStyle kLegendText{10.5, kInk};

  const Chart& chart_;
  const ChartSize size_;
  Canvas& canvas_;
  Frame frame_;
  std::vector<Point> legend_places_;  // base lines; empty for a single curve
};

}  // namespace

void write_charts(const std::vector<Chart>& charts, const std::filesystem::path& file, const ChartSize& size) {
  const std::string suffix = file.extension().string();
  if (suffix != ".png" && suffix != ".svg") {
    throw ConfigError(concat(file.string(), ": a picture's name must end in .png or .svg"));
  }
  const PictureFormat format = suffix == ".png" ? PictureFormat::kPng : PictureFormat::kSvg;
  Canvas canvas(format, size.width, size.height * static_cast<double>(charts.size()));
  for (const Chart& chart : charts) {
    Drawing(chart, size, canvas).draw();
    canvas.move_down(size.height);
  }
  write_file(file, canvas.finish());
}

}  // namespace tandem::app
