// rl/env/canvas.h: what an environment draws of itself for a video (`tandem eval RUN --video pole.gif`).
//
//   void render(tandem::rl::Canvas& canvas) const {
//     canvas.view(-5, 0, 5, 10);                               // left, bottom, right, top: the part that is shown
//     canvas.line({{-5, 5}, {5, 5}}, {.color = Canvas::kGray, .is_dashed = true});
//     canvas.place({0, height_}, angle_);                      // what follows is in the rocket's own frame
//     canvas.polygon({{-0.3, 0}, {0.3, 0}, {0, 1}}, Canvas::kBlue);
//   }
//
// Coordinates are those of the environment, in its units: view() says which part is shown, as large as fits, with one
// scale for both directions. Widths of lines and sizes of texts are in points: 600 of them are the longer side of the
// picture, whatever number of pixels it has. Who has pixels already gives them to image().
//
// The first picture of a video decides the shape of its frames: a view of 10 x 5 gives frames twice as wide as high, at
// most four times. A view may differ from picture to picture, as that of a camera which follows a car; it is then
// fitted into the same frames.
//
// A canvas only remembers its shapes, which the program draws later. So a plugin that renders needs no graphics
// library, rendering costs little beside the steps, and a run that makes no video never calls it.
//
// Threads: single-thread; a plain value. It crosses the border to plugins (plugin.h).
// Errors: EnvError for coordinates that are not finite, shapes before view(), and more than kMostBytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::rl {

/// The shapes of a canvas. An environment makes them by the functions of Canvas, which check all numbers; the program
/// that draws them takes them as they are. Points are in the environment's own frame, whatever place() was in force.
namespace drawing {

/// The units are those of view().
struct Point {
  double x = 0, y = 0;
};
/// Shares of red, green and blue, and how much it covers: all from 0 to 1.
struct Color {
  double red = 0, green = 0, blue = 0, alpha = 1;
  friend bool operator==(const Color&, const Color&) = default;
};
/// How a line is drawn. `width` is in points, so a line looks the same in a small world and in a large one; dashes and
/// gaps are five points long.
struct Stroke {
  Color color = {0.13, 0.15, 0.18};
  double width = 2;
  bool is_dashed = false;
};
/// Which part of a text is at the point that it is given: its begin, its middle or its end. In height it is always the
/// middle of the figures.
enum class Align { kLeft, kCenter, kRight };
/// How a text is written, without serifs. `size` is in points: 16 can be read in a video of the usual size, 11 just so.
struct TextStyle {
  Color color = {0.13, 0.15, 0.18};
  double size = 16;
  Align align = Align::kCenter;
  bool is_bold = false;
};

/// Joined by straight lines with round corners and ends.
struct Lines {
  std::vector<Point> points;
  Stroke stroke;
};
/// An area with straight edges, which may be of any form; where its edges cross, the area that is surrounded counts.
struct Polygon {
  std::vector<Point> corners;
  Color color;
};
/// A filled circle. The radius is in the environment's units, and is the same in both directions.
struct Disc {
  Point center;
  double radius = 0;
  Color color;
};
/// A line with round ends whose `width` is in the environment's units.
struct Rod {
  Point from, to;
  double width = 0;
  Color color;
};
/// A line with its head at `to`. The head grows with the line's width, and is never longer than the arrow.
struct Arrow {
  Point from, to;
  Stroke stroke;
};
/// Centred on the height of `at`.
struct Text {
  Point at;
  std::string text;
  TextStyle style;
};
/// Fills the view. `rgb` is [height, width, 3], the upper row first.
struct Image {
  int height = 0, width = 0;
  std::vector<std::uint8_t> rgb;
};
/// Drawn in the order in which a canvas has them, the first at the back.
using Shape = std::variant<Lines, Polygon, Disc, Rod, Arrow, Text, Image>;

/// The values at the four edges of what is shown. Right below left, or top below bottom, turns that axis round.
struct View {
  double left = 0, bottom = 0, right = 0, top = 0;
};

}  // namespace drawing

/// One picture: a view and shapes, the later over the earlier.
class Canvas {
 public:
  using Point = drawing::Point;
  using Color = drawing::Color;
  using Stroke = drawing::Stroke;
  using TextStyle = drawing::TextStyle;
  using Align = drawing::Align;

  /// Colours that people tell apart who see colours differently (Okabe and Ito, 2008).
  static constexpr Color kInk{0.13, 0.15, 0.18}, kGray{0.62, 0.65, 0.69}, kLight{0.91, 0.92, 0.94}, kWhite{1, 1, 1};
  static constexpr Color kBlue{0.10, 0.36, 0.70}, kSky{0.34, 0.71, 0.91}, kGreen{0.00, 0.62, 0.45},
      kYellow{0.94, 0.77, 0.20}, kOrange{0.90, 0.52, 0.00}, kRed{0.80, 0.27, 0.13}, kPink{0.80, 0.47, 0.65},
      kBrown{0.48, 0.35, 0.25};
  /// Of one picture, all its points, texts and pixels together.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  /// Of an image, in each direction.
  static constexpr int kMostPixels = 4096;

  /// Shows the rectangle with these edges; what lies outside of it is seen where the picture is larger. Comes before
  /// any shape; a later one takes its place. Grids that count rows downwards turn the axis round: view(0, 8, 8, 0).
  void view(double left, double bottom, double right, double top);
  /// Puts the origin of what is drawn from now on to `origin`, turned by `angle` (radians, counter-clockwise where y
  /// grows upwards). place({}) goes back to the environment's own frame.
  void place(Point origin, double angle = 0);

  /// Joins the points in their order. A closed line has its first point at its end once more; fewer than two points
  /// draw nothing.
  void line(std::span<const Point> points, const Stroke& stroke = {});
  void line(std::initializer_list<Point> points, const Stroke& stroke = {}) { line(std::span(points), stroke); }
  /// Fills the area between the corners; the last one is joined to the first. Draw a line over it for an outline.
  void polygon(std::span<const Point> corners, const Color& color);
  void polygon(std::initializer_list<Point> corners, const Color& color) { polygon(std::span(corners), color); }
  /// From one corner to the opposite one, in the frame of place().
  void rectangle(Point corner, Point opposite, const Color& color);
  /// A filled circle; a radius of 0 draws nothing.
  void disc(Point center, double radius, const Color& color);
  /// A line whose width is in the environment's units: a pole, a link of an arm.
  void rod(Point from, Point to, double width, const Color& color);
  /// Shows a force or a speed, from where it acts. Nothing is drawn where both ends are equal.
  void arrow(Point from, Point to, const Stroke& stroke = {});
  /// A text in UTF-8, in one line. Texts stay upright, whatever place() says, so that they can be read; `at` is placed
  /// as other points are.
  void text(Point at, std::string_view text, const TextStyle& style = {});
  /// The pixels of a frame, [height, width, 3], the upper row first; copied. Sets the view to
  /// (0, height, width, 0), so that shapes over it are in pixels, with y downwards. Throws EnvError for another
  /// number of bytes, and for more than kMostPixels in a direction.
  void image(std::span<const std::uint8_t> rgb, int height, int width);

  /// The part of the world that is seen, for who shows it; all zeros before view() or image().
  [[nodiscard]] const drawing::View& shown() const { return view_; }
  /// What was drawn so far. References are valid until the next shape.
  [[nodiscard]] const std::vector<drawing::Shape>& shapes() const { return shapes_; }
  /// Memory of all shapes, about: a film of many pictures keeps count by it.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  // The same point in the environment's frame. Throws for one that is not finite.
  [[nodiscard]] Point placed(Point point) const;
  [[nodiscard]] std::vector<Point> placed(std::span<const Point> points) const;
  // Counts `bytes` more and adds the shape.
  void add(drawing::Shape shape, std::size_t bytes);

  drawing::View view_;
  std::vector<drawing::Shape> shapes_;
  std::size_t bytes_ = 0;
  // Of place().
  Point origin_;
  double cosine_ = 1, sine_ = 0;
};

}  // namespace tandem::rl
