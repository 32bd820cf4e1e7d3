// app/video/palette.h: at most 255 colours for all frames of a GIF.
//
// All frames share one palette, so that still parts of a picture keep their colour and need not be stored again. Frames
// with at most kMost colours keep them exactly. Else colours are sorted into 64 steps a channel, and these are divided
// by the cut that lessens the squared error most, again and again; each step gets the nearest of the boxes' means.
// After P. Heckbert, "Color Image Quantization for Frame Buffer Display" (1982), with cuts at means.
//
// There is no dithering: its dots change from frame to frame, which is ugly and makes files large. Smooth pictures,
// such as those of cameras, show faint bands instead.
//
// Threads: single-thread; a plain value of 9 MB.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tandem::app {

/// Red, green and blue.
using Rgb = std::array<std::uint8_t, 3>;

class Palette {
 public:
  /// One entry of GIF's 256 is left for pixels that stay as they are.
  static constexpr std::size_t kMost = 255;

  /// No colour is counted yet.
  Palette();
  /// Counts the colours of a frame, [pixels, 3].
  void count(std::span<const std::uint8_t> rgb);
  /// Chooses the colours, of which there are `most` or fewer; after it count() is not called again.
  void choose(std::size_t most = kMost);

  /// The chosen colours, by index; empty before choose().
  [[nodiscard]] const std::vector<Rgb>& colors() const { return colors_; }
  /// The index of the nearest colour. Colours that were never counted get some near one.
  [[nodiscard]] std::uint8_t index_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) const {
    if (is_exact_) {
      const auto found = exact_.find(std::uint32_t{red} << 16 | std::uint32_t{green} << 8 | blue);
      return found == exact_.end() ? 0 : found->second;
    }
    return nearest_[bin_of(red, green, blue)];
  }

 private:
  // Colours that share the upper six bits of each channel: their number and their sums.
  struct Bin {
    std::uint64_t count = 0;
    std::array<std::uint64_t, 3> sum = {};
  };
  [[nodiscard]] static std::size_t bin_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
    return static_cast<std::size_t>(red >> 2) << 12 | static_cast<std::size_t>(green >> 2) << 6 | blue >> 2;
  }
  // colors_ from the bins by cuts; and nearest_ of all bins that were counted.
  void cut(std::size_t most);
  void find_nearest();

  std::vector<Bin> bins_;
  // Index by colour, while there are few.
  std::unordered_map<std::uint32_t, std::uint8_t> exact_;
  bool is_exact_ = true;
  std::vector<std::uint8_t> nearest_;  // by bin
  std::vector<Rgb> colors_;
};

}  // namespace tandem::app
