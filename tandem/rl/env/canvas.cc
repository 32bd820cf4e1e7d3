#include "tandem/rl/env/canvas.h"

#include <array>
#include <cmath>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// A drawing library would draw nothing at all, or fail much later, without a word on which shape it was.
void check_finite(const char* what, double value) {
  if (!std::isfinite(value)) throw EnvError(concat("it draws with ", what, " = ", value));
}

void check_width(const char* what, double value) {
  check_finite(what, value);
  if (value < 0) throw EnvError(concat("it draws with ", what, " = ", value, ", which is below 0"));
}

void check(const drawing::Color& color) {
  for (const double part : {color.red, color.green, color.blue, color.alpha}) {
    if (!(part >= 0 && part <= 1))
      throw EnvError(concat("it draws in a colour with a share of ", part, "; shares go from 0 to 1"));
  }
}

void check(const drawing::Stroke& stroke) {
  check(stroke.color);
  check_width("a line's width", stroke.width);
}

}  // namespace

void Canvas::view(double left, double bottom, double right, double top) {
  for (const double edge : {left, bottom, right, top}) check_finite("an edge of its view", edge);
  if (left == right || bottom == top)
    throw EnvError(concat("its view(", left, ", ", bottom, ", ", right, ", ", top,
                          ") is empty; the arguments are left, bottom, right, top"));
  view_ = {left, bottom, right, top};
}

void Canvas::place(Point origin, double angle) {
  check_finite("an angle of place()", angle);
  check_finite("an x of place()", origin.x);
  check_finite("a y of place()", origin.y);
  origin_ = origin;
  cosine_ = std::cos(angle);
  sine_ = std::sin(angle);
}

void Canvas::line(std::span<const Point> points, const Stroke& stroke) {
  check(stroke);
  add(drawing::Lines{placed(points), stroke}, points.size_bytes());
}

void Canvas::polygon(std::span<const Point> corners, const Color& color) {
  check(color);
  add(drawing::Polygon{placed(corners), color}, corners.size_bytes());
}

void Canvas::rectangle(Point corner, Point opposite, const Color& color) {
  polygon({corner, {opposite.x, corner.y}, opposite, {corner.x, opposite.y}}, color);
}

void Canvas::disc(Point center, double radius, const Color& color) {
  check(color);
  check_width("a radius", radius);
  add(drawing::Disc{placed(center), radius, color}, 0);
}

void Canvas::rod(Point from, Point to, double width, const Color& color) {
  check(color);
  check_width("a rod's width", width);
  add(drawing::Rod{placed(from), placed(to), width, color}, 0);
}

void Canvas::arrow(Point from, Point to, const Stroke& stroke) {
  check(stroke);
  const Point start = placed(from), end = placed(to);
  if (start.x == end.x && start.y == end.y) return;
  add(drawing::Arrow{start, end, stroke}, 0);
}

void Canvas::text(Point at, std::string_view text, const TextStyle& style) {
  check(style.color);
  check_width("a text's size", style.size);
  add(drawing::Text{placed(at), std::string(text), style}, text.size());
}

void Canvas::image(std::span<const std::uint8_t> rgb, int height, int width) {
  if (height < 1 || width < 1 || height > kMostPixels || width > kMostPixels)
    throw EnvError(concat("it draws an image of ", height, " x ", width, " pixels; both sides are 1 to ", kMostPixels));
  const std::size_t bytes = std::size_t{3} * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  if (rgb.size() != bytes)
    throw EnvError(concat("it draws an image of ", height, " x ", width, " pixels with ", rgb.size(),
                          " bytes; red, green and blue of each make ", bytes));
  view(0, height, width, 0);
  add(drawing::Image{height, width, {rgb.begin(), rgb.end()}}, bytes);
}

Canvas::Point Canvas::placed(Point point) const {
  check_finite("x", point.x);
  check_finite("y", point.y);
  return {origin_.x + cosine_ * point.x - sine_ * point.y, origin_.y + sine_ * point.x + cosine_ * point.y};
}

std::vector<Canvas::Point> Canvas::placed(std::span<const Point> points) const {
  std::vector<Point> result;
  result.reserve(points.size());
  for (const Point& point : points) result.push_back(placed(point));
  return result;
}

void Canvas::add(drawing::Shape shape, std::size_t bytes) {
  if (view_.left == view_.right)
    throw EnvError("it draws before it says what is shown: call canvas.view(left, bottom, right, top) first");
  bytes_ += bytes + sizeof(drawing::Shape);
  if (bytes_ > kMostBytes)
    throw EnvError(concat("it draws more than ", kMostBytes >> 20, " MiB of shapes in one picture"));
  shapes_.push_back(std::move(shape));
}

}  // namespace tandem::rl
