// The plan of a frame: white, the shapes from the back to the front, the strip over whatever reaches below the picture,
// and cairo's pixels as bytes. Cairo's coordinates are pixels, with y downwards; a Fit leads to them.
#include "tandem/app/video/painter.h"

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using rl::Canvas;
namespace drawing = rl::drawing;

constexpr double kPoints = 600;      // of a picture's longer side
constexpr double kStripPoints = 30;  // of the strip's height
constexpr int kMostRatio = 4;

int even(double pixels) { return std::max(2, 2 * static_cast<int>(std::ceil(pixels / 2 - 1e-9))); }

struct PictureSize {
  int width = 0, height = 0;
};

PictureSize picture_size(const Canvas& canvas, int size) {
  if (!canvas.shapes().empty()) {
    if (const auto* image = std::get_if<drawing::Image>(&canvas.shapes().front())) {
      const int times = std::max(1, size / std::max(image->width, image->height));
      return {even(times * image->width), even(times * image->height)};
    }
  }
  const drawing::View& view = canvas.shown();
  const double across = std::abs(view.right - view.left), up = std::abs(view.top - view.bottom);
  const double ratio = up > 0 ? std::clamp(across / up, 1.0 / kMostRatio, 1.0 * kMostRatio) : 1;
  return ratio >= 1 ? PictureSize{even(size), even(size / ratio)} : PictureSize{even(size * ratio), even(size)};
}

// From an environment's coordinates to pixels.
struct Fit {
  double scale = 1;  // pixels of a unit
  double x = 0, y = 0, to_right = 1, down = -1;

  [[nodiscard]] drawing::Point operator()(drawing::Point point) const {
    return {x + to_right * scale * point.x, y + down * scale * point.y};
  }
};

Fit fit_of(const drawing::View& view, int width, int height) {
  const double across = view.right - view.left, up = view.top - view.bottom;
  Fit fit;
  fit.scale = std::min(width / std::abs(across), height / std::abs(up));
  fit.to_right = across > 0 ? 1 : -1;
  fit.down = up > 0 ? -1 : 1;
  fit.x = width / 2.0 - fit.to_right * fit.scale * (view.left + view.right) / 2;
  fit.y = height / 2.0 - fit.down * fit.scale * (view.bottom + view.top) / 2;
  return fit;
}

void check(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw RunError(concat("a frame could not be drawn: cairo says: ", cairo_status_to_string(status)));
}

// Draws shapes of one picture. Errors of cairo stick to it, so they are looked at once, in the end.
class Pen {
 public:
  Pen(cairo_t* cairo, const Fit& fit, double point) : cairo_(cairo), fit_(fit), point_(point) {}

  void operator()(const drawing::Lines& lines) {
    path(lines.points);
    stroke(lines.stroke);
  }
  void operator()(const drawing::Polygon& polygon) {
    path(polygon.corners);
    cairo_close_path(cairo_);
    set(polygon.color);
    cairo_fill(cairo_);
  }
  void operator()(const drawing::Disc& disc) {
    const drawing::Point at = fit_(disc.center);
    cairo_new_path(cairo_);
    cairo_arc(cairo_, at.x, at.y, disc.radius * fit_.scale, 0, 2 * std::numbers::pi);
    set(disc.color);
    cairo_fill(cairo_);
  }
  void operator()(const drawing::Rod& rod) {
    path(std::array{rod.from, rod.to});
    set(rod.color);
    cairo_set_line_width(cairo_, rod.width * fit_.scale);
    cairo_stroke(cairo_);
  }
  // The line ends within the head, so that its round end does not show before the tip.
  void operator()(const drawing::Arrow& arrow) {
    const drawing::Point from = fit_(arrow.from), to = fit_(arrow.to);
    const double length = std::hypot(to.x - from.x, to.y - from.y);
    if (length == 0) return;
    const double head = std::min(length, point_ * (4 + 3 * arrow.stroke.width)), half = 0.45 * head;
    const double x = (to.x - from.x) / length, y = (to.y - from.y) / length;
    const drawing::Point neck{to.x - head * x, to.y - head * y};
    cairo_new_path(cairo_);
    cairo_move_to(cairo_, from.x, from.y);
    cairo_line_to(cairo_, neck.x + 0.2 * head * x, neck.y + 0.2 * head * y);
    stroke(arrow.stroke);
    cairo_new_path(cairo_);
    cairo_move_to(cairo_, to.x, to.y);
    cairo_line_to(cairo_, neck.x - half * y, neck.y + half * x);
    cairo_line_to(cairo_, neck.x + half * y, neck.y - half * x);
    cairo_close_path(cairo_);
    cairo_fill(cairo_);
  }
  void operator()(const drawing::Text& text) { write(fit_(text.at), text.text, text.style); }
  void operator()(const drawing::Image& image) {
    cairo_surface_t* pixels = cairo_image_surface_create(CAIRO_FORMAT_RGB24, image.width, image.height);
    const int stride = cairo_image_surface_get_stride(pixels);
    if (unsigned char* bytes = cairo_image_surface_get_data(pixels); bytes != nullptr) {
      cairo_surface_flush(pixels);
      for (int row = 0; row < image.height; ++row) {
        const std::uint8_t* from = image.rgb.data() + std::ptrdiff_t{3} * row * image.width;
        auto* to = reinterpret_cast<std::uint32_t*>(bytes + std::ptrdiff_t{row} * stride);
        for (int column = 0; column < image.width; ++column, from += 3)
          to[column] = std::uint32_t{from[0]} << 16 | std::uint32_t{from[1]} << 8 | from[2];
      }
      cairo_surface_mark_dirty(pixels);
    }
    // The view is in the image's pixels.
    const drawing::Point corner = fit_({0, 0});
    cairo_save(cairo_);
    cairo_translate(cairo_, corner.x, corner.y);
    cairo_scale(cairo_, fit_.to_right * fit_.scale, fit_.down * fit_.scale);
    cairo_set_source_surface(cairo_, pixels, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cairo_), fit_.scale >= 1 ? CAIRO_FILTER_NEAREST : CAIRO_FILTER_GOOD);
    cairo_paint(cairo_);
    cairo_restore(cairo_);
    cairo_surface_destroy(pixels);
  }

  // `at`: in pixels, at the middle of the capitals' height, which is that of figures, too.
  void write(drawing::Point at, const std::string& text, const drawing::TextStyle& style) {
    choose_font(style);
    cairo_text_extents_t extents{}, capital{};
    cairo_text_extents(cairo_, text.c_str(), &extents);
    cairo_text_extents(cairo_, "0", &capital);
    const double share = style.align == Canvas::Align::kLeft ? 0 : style.align == Canvas::Align::kCenter ? 0.5 : 1;
    set(style.color);
    cairo_move_to(cairo_, at.x - share * extents.x_advance, at.y - capital.y_bearing - capital.height / 2);
    cairo_show_text(cairo_, text.c_str());
  }
  // In pixels.
  [[nodiscard]] double width_of(const std::string& text, const drawing::TextStyle& style) {
    choose_font(style);
    cairo_text_extents_t extents{};
    cairo_text_extents(cairo_, text.c_str(), &extents);
    return extents.x_advance;
  }
  void set(const drawing::Color& color) {
    cairo_set_source_rgba(cairo_, color.red, color.green, color.blue, color.alpha);
  }

 private:
  void choose_font(const drawing::TextStyle& style) {
    cairo_select_font_face(cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           style.is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo_, style.size * point_);
  }
  template <typename Points>
  void path(const Points& points) {
    cairo_new_path(cairo_);
    for (const drawing::Point& point : points) {
      const drawing::Point at = fit_(point);
      cairo_line_to(cairo_, at.x, at.y);
    }
  }
  void stroke(const drawing::Stroke& stroke) {
    const std::array<double, 2> dashes{5 * point_, 5 * point_};
    set(stroke.color);
    cairo_set_line_width(cairo_, stroke.width * point_);
    if (stroke.is_dashed) cairo_set_dash(cairo_, dashes.data(), static_cast<int>(dashes.size()), 0);
    cairo_stroke(cairo_);
    cairo_set_dash(cairo_, nullptr, 0, 0);
  }

  cairo_t* cairo_;
  const Fit fit_;
  const double point_;
};

// The texts become smaller where both would not fit beside each other.
void draw_strip(cairo_t* cairo, const Caption& caption, double top, double width, double height, double point) {
  Pen pen(cairo, {}, point);
  const double margin = 12 * point, room = width - 3 * margin;
  drawing::TextStyle style{.color = caption.is_end ? Canvas::kWhite : Canvas::kInk, .size = 14};
  const double wanted = pen.width_of(caption.left, style) + pen.width_of(caption.right, style);
  if (wanted > room && room > 0) style.size *= room / wanted;
  pen.set(caption.is_end ? Canvas::kInk : Canvas::kLight);
  cairo_rectangle(cairo, 0, top, width, height);
  cairo_fill(cairo);
  pen.set(Canvas::kGray);  // tells the strip from a picture of its colour
  cairo_rectangle(cairo, 0, top, width, std::max(1.0, std::floor(point)));
  cairo_fill(cairo);
  style.align = Canvas::Align::kLeft;
  pen.write({margin, top + height / 2}, caption.left, style);
  style.align = Canvas::Align::kRight;
  pen.write({width - margin, top + height / 2}, caption.right, style);
}

}  // namespace

struct Painter::Surface {
  Surface(int width, int height)
      : pixels(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)), cairo(cairo_create(pixels)) {
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(cairo, CAIRO_LINE_CAP_ROUND);
  }
  ~Surface() {
    cairo_destroy(cairo);
    cairo_surface_destroy(pixels);
  }
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;

  cairo_surface_t* const pixels;
  cairo_t* const cairo;
};

Painter::Painter(const Canvas& first, int size) {
  const PictureSize picture = picture_size(first, size);
  picture_height_ = picture.height;
  point_ = std::max(picture.width, picture.height) / kPoints;
  frame_ = {.width = picture.width, .height = picture.height + even(kStripPoints * point_)};
  frame_.rgb.resize(std::size_t{3} * static_cast<std::size_t>(frame_.width) * static_cast<std::size_t>(frame_.height));
  surface_ = std::make_unique<Surface>(frame_.width, frame_.height);
  check(cairo_status(surface_->cairo));
}

Painter::~Painter() = default;

const VideoFrame& Painter::paint(const Canvas& canvas, const Caption& caption) {
  cairo_t* const cairo = surface_->cairo;
  cairo_set_source_rgb(cairo, 1, 1, 1);
  cairo_paint(cairo);
  Pen pen(cairo, canvas.shapes().empty() ? Fit{} : fit_of(canvas.shown(), frame_.width, picture_height_), point_);
  for (const drawing::Shape& shape : canvas.shapes()) std::visit(pen, shape);
  draw_strip(cairo, caption, picture_height_, frame_.width, frame_.height - picture_height_, point_);
  check(cairo_status(cairo));
  cairo_surface_flush(surface_->pixels);
  const unsigned char* bytes = cairo_image_surface_get_data(surface_->pixels);
  const int stride = cairo_image_surface_get_stride(surface_->pixels);
  std::uint8_t* to = frame_.rgb.data();
  for (int row = 0; row < frame_.height; ++row) {
    const auto* from = reinterpret_cast<const std::uint32_t*>(bytes + std::ptrdiff_t{row} * stride);
    for (int column = 0; column < frame_.width; ++column, to += 3) {
      to[0] = static_cast<std::uint8_t>(from[column] >> 16);
      to[1] = static_cast<std::uint8_t>(from[column] >> 8);
      to[2] = static_cast<std::uint8_t>(from[column]);
    }
  }
  return frame_;
}

}  // namespace tandem::app
