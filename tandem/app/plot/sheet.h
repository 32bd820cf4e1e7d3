// app/plot/sheet.h: lines, discs and text on a picture, drawn with cairo.
//
// Coordinates are in points of 1/72 inch, and y grows downwards. A PNG has two pixels a point; an SVG keeps lines and
// texts as such.
//
// Threads: single-thread. Errors of cairo stick to the sheet, so drawing calls report none; finish() does.
#pragma once
#include <cairo.h>

#include <span>
#include <string>
#include <string_view>

#include "tandem/app/plot/chart.h"

namespace tandem::app {

/// Each from 0 to 1.
struct Color {
  double red = 0, green = 0, blue = 0, alpha = 1;
};

enum class PictureFormat { kPng, kSvg };
enum class FontWeight { kNormal, kBold };
/// Of the text, at the given x.
enum class Align { kLeft, kCenter, kRight };

/// `size` is in points.
struct TextStyle {
  double size = 11;
  Color color = {};
  FontWeight weight = FontWeight::kNormal;
  Align align = Align::kLeft;
};

/// The picture. It cannot be copied or moved: cairo holds a pointer to its bytes.
class Sheet {
 public:
  /// White, `width` x `height` points, the origin at the upper left.
  Sheet(PictureFormat format, double width, double height);
  ~Sheet();
  Sheet(const Sheet&) = delete;
  Sheet& operator=(const Sheet&) = delete;

  /// Lines have round ends and joins; `width` is in points.
  void polyline(std::span<const Point> points, double width, Color color, Stroke stroke = Stroke::kSolid);
  void line(Point from, Point to, double width, Color color, Stroke stroke = Stroke::kSolid);
  void disc(Point center, double radius, Color color);
  void polygon(std::span<const Point> corners, Color color);
  /// `at`: the base line.
  void text(Point at, std::string_view text, const TextStyle& style);
  /// Draws text that is read from below.
  void rotated_text(Point at, std::string_view text, const TextStyle& style);
  /// The distance in points by which the text moves the pen.
  [[nodiscard]] double text_width(std::string_view text, const TextStyle& style);

  /// What is drawn from now on lies so much further to the right and lower than its coordinates say, and then as before
  /// again. These nest, and so do clips; each begin needs one end.
  void begin_shift(Point by);
  void end_shift() { cairo_restore(cairo_); }
  /// Whatever is drawn until end_clip() shows only within the rectangle.
  void begin_clip(Point upper_left, Point lower_right);
  void end_clip() { cairo_restore(cairo_); }

  /// The picture as the bytes of its file. Call it once, last. Throws RunError when cairo failed.
  [[nodiscard]] std::string finish();

 private:
  // Cairo calls it with each piece of a file; `bytes` is the sheet's string.
  static cairo_status_t append(void* bytes, const unsigned char* data, unsigned int size);
  void set_color(Color color);

  const PictureFormat format_;
  std::string bytes_;  // of an SVG, as it is drawn
  cairo_surface_t* surface_ = nullptr;
  cairo_t* cairo_ = nullptr;
};

}  // namespace tandem::app
