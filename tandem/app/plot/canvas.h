// app/plot/canvas.h: lines, discs and text on a cairo surface.
//
// Threads: single-thread. Ownership: owns the surface.
//
// Coordinates are in points of 1/72 inch, y grows downwards. Errors of cairo stick to the surface, so drawing calls
// report none; finish() does.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tandem/app/plot/curve.h"

struct _cairo;          // NOLINT(bugprone-reserved-identifier): cairo's own name
struct _cairo_surface;  // NOLINT(bugprone-reserved-identifier)

namespace tandem::app {

struct Color {
  double red = 0, green = 0, blue = 0, alpha = 1;

  [[nodiscard]] Color with_alpha(double value) const { return {red, green, blue, value}; }
};

/// PNG is drawn with two pixels a point, SVG keeps the lines and texts as such.
enum class PictureFormat { kPng, kSvg };
enum class FontWeight { kNormal, kBold };
enum class Align { kLeft, kCenter, kRight };  // of the text, at the given x

/// `size` is in points.
struct TextStyle {
  double size = 11;
  Color color = {};
  FontWeight weight = FontWeight::kNormal;
  Align align = Align::kLeft;
};

/// It cannot be copied or moved: cairo holds a pointer to its bytes.
class Canvas {
 public:
  /// White, `width` x `height` points, the origin at the upper left.
  Canvas(PictureFormat format, double width, double height);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  /// Lines have round ends and joins; `width` is in points.
  void line(Point from, Point to, double width, Color color, Stroke stroke = Stroke::kSolid);
  void polyline(std::span<const Point> points, double width, Color color, Stroke stroke = Stroke::kSolid);
  void disc(Point center, double radius, Color color);
  /// `at`: the base line.
  void text(Point at, std::string_view text, const TextStyle& style);
  /// Draws text that is read from below.
  void rotated_text(Point at, std::string_view text, const TextStyle& style);
  /// Returns the distance in points by which the text moves the pen.
  [[nodiscard]] double text_width(std::string_view text, const TextStyle& style);

  /// Whatever is drawn until end_clip() shows only within the rectangle.
  void begin_clip(Point upper_left, Point lower_right);
  /// Clips nest; each begin_clip() needs one end_clip().
  void end_clip();

  /// The picture as the bytes of its file. Call it once, last. Throws RunError when cairo failed.
  [[nodiscard]] std::string finish();

 private:
  void select_font(const TextStyle& style);
  void set_color(Color color);
  void trace(std::span<const Point> points);

  const PictureFormat format_;
  std::string bytes_;  // of an SVG, as it is drawn
  _cairo_surface* surface_ = nullptr;
  _cairo* cairo_ = nullptr;
};

}  // namespace tandem::app
