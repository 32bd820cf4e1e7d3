// app/video/painter.h: turns what environments draw of themselves (rl/env/canvas.h) into pixels.
//
// Lines, areas and texts are smoothed at their edges. The font is the system's sans-serif, as in the other pictures of
// the program. What lies outside of an environment's view is drawn where the frame has room for it, and white
// elsewhere.
//
// A frame has the picture above, with one scale in both directions, and below it a strip with two texts: so the texts
// cover nothing of the picture.
//
// Threads: single-thread. Owns its memory; cairo is private to the .cc file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/env/canvas.h"

namespace tandem::app {

/// `rgb` is [height, width, 3], the upper row first.
struct VideoFrame {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb = {};
};

/// The texts at both ends of the strip. The strip of an episode's last moment is dark.
struct Caption {
  std::string left = {}, right = {};
  bool is_end = false;
};

/// Paints frames of one size. A frame of 600 x 400 pixels takes a millisecond or two.
class Painter {
 public:
  /// The shape of the frames is that of what `first` shows, at most four times as long as wide; other pictures are
  /// fitted into it. `size`: pixels of the picture's longer side. The pixels of an image are enlarged by a whole
  /// number, so that they stay sharp, and never made smaller. Widths and heights are even, as video codecs want them.
  Painter(const rl::Canvas& first, int size);
  ~Painter();
  Painter(const Painter&) = delete;
  Painter& operator=(const Painter&) = delete;

  /// The frame is valid until the next call. Throws RunError with the reason when cairo fails, such as for a text that
  /// is no UTF-8.
  [[nodiscard]] const VideoFrame& paint(const rl::Canvas& canvas, const Caption& caption);
  /// Of every frame, in pixels.
  [[nodiscard]] int width() const { return frame_.width; }
  [[nodiscard]] int height() const { return frame_.height; }

 private:
  struct Surface;  // cairo's

  int picture_height_ = 0;  // without the strip
  double point_ = 1;        // in pixels
  VideoFrame frame_;
  std::unique_ptr<Surface> surface_;
};

}  // namespace tandem::app
