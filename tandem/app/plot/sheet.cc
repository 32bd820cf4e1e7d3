#include "tandem/app/plot/sheet.h"

#include <cairo-svg.h>

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr double kPixelsOfPoint = 2;  // of a PNG

void require_success(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw RunError(concat("the picture could not be drawn: cairo says: ", cairo_status_to_string(status)));
}

}  // namespace

Sheet::Sheet(PictureFormat format, double width, double height) : format_(format) {
  if (format == PictureFormat::kSvg) {
    surface_ = cairo_svg_surface_create_for_stream(append, &bytes_, width, height);
  } else {
    surface_ = cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(std::lround(width * kPixelsOfPoint)),
                                          static_cast<int>(std::lround(height * kPixelsOfPoint)));
    cairo_surface_set_device_scale(surface_, kPixelsOfPoint, kPixelsOfPoint);
  }
  cairo_ = cairo_create(surface_);
  set_color({1, 1, 1});
  cairo_paint(cairo_);
  cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(cairo_, CAIRO_LINE_CAP_ROUND);
}

Sheet::~Sheet() {
  cairo_destroy(cairo_);
  cairo_surface_destroy(surface_);
}

void Sheet::polyline(std::span<const Point> points, double width, Color color, Stroke stroke) {
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

void Sheet::line(Point from, Point to, double width, Color color, Stroke stroke) {
  polyline(std::array<Point, 2>{from, to}, width, color, stroke);
}

void Sheet::disc(Point center, double radius, Color color) {
  set_color(color);
  cairo_new_path(cairo_);
  cairo_arc(cairo_, center.x, center.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(cairo_);
}

void Sheet::polygon(std::span<const Point> corners, Color color) {
  set_color(color);
  cairo_new_path(cairo_);
  for (const Point& corner : corners) cairo_line_to(cairo_, corner.x, corner.y);
  cairo_close_path(cairo_);
  cairo_fill(cairo_);
}

void Sheet::text(Point at, std::string_view text, const TextStyle& style) {
  const double width = text_width(text, style);
  const double share = style.align == Align::kLeft ? 0 : style.align == Align::kCenter ? 0.5 : 1;
  set_color(style.color);
  cairo_move_to(cairo_, at.x - share * width, at.y);
  cairo_show_text(cairo_, std::string(text).c_str());
}

void Sheet::rotated_text(Point at, std::string_view text, const TextStyle& style) {
  cairo_save(cairo_);
  cairo_translate(cairo_, at.x, at.y);
  cairo_rotate(cairo_, -std::numbers::pi / 2);
  this->text({0, 0}, text, style);
  cairo_restore(cairo_);
}

double Sheet::text_width(std::string_view text, const TextStyle& style) {
  cairo_select_font_face(cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         style.weight == FontWeight::kBold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo_, style.size);
  cairo_text_extents_t extents{};
  cairo_text_extents(cairo_, std::string(text).c_str(), &extents);
  return extents.x_advance;
}

void Sheet::begin_shift(Point by) {
  cairo_save(cairo_);
  cairo_translate(cairo_, by.x, by.y);
}

void Sheet::begin_clip(Point upper_left, Point lower_right) {
  cairo_save(cairo_);
  cairo_rectangle(cairo_, upper_left.x, upper_left.y, lower_right.x - upper_left.x, lower_right.y - upper_left.y);
  cairo_clip(cairo_);
}

// An SVG is complete only after cairo_surface_finish(), a PNG is written out before it.
std::string Sheet::finish() {
  require_success(cairo_status(cairo_));
  if (format_ == PictureFormat::kPng) require_success(cairo_surface_write_to_png_stream(surface_, append, &bytes_));
  cairo_surface_finish(surface_);
  require_success(cairo_surface_status(surface_));
  return std::move(bytes_);
}

cairo_status_t Sheet::append(void* bytes, const unsigned char* data, unsigned int size) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), size);
  return CAIRO_STATUS_SUCCESS;
}

void Sheet::set_color(Color color) { cairo_set_source_rgba(cairo_, color.red, color.green, color.blue, color.alpha); }

}  // namespace tandem::app
