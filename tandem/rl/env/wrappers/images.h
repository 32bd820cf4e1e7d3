// rl/env/wrappers/images.h: how a leaf is read as an image.
//
// Plain values. Threads: all.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// A uint8 leaf of two or three dimensions.
struct ImageShape {
  std::int64_t channels = 1, height = 0, width = 0;
  bool channels_are_last = false;
};

/// [height, width]; [height, width, channels] where the last extent is 1, 3 or 4 and the first is not; else [channels,
/// height, width]. Nothing for a leaf that is no image.
[[nodiscard]] inline std::optional<ImageShape> image_shape(const Leaf& leaf) {
  if (leaf.type != ElementType::kUInt8) return std::nullopt;
  const auto& s = leaf.shape;
  if (s.size() == 2) return ImageShape{.channels = 1, .height = s[0], .width = s[1]};
  if (s.size() != 3) return std::nullopt;
  const auto counts_colours = [](std::int64_t extent) { return extent == 1 || extent == 3 || extent == 4; };
  if (counts_colours(s[2]) && !counts_colours(s[0]))
    return ImageShape{.channels = s[2], .height = s[0], .width = s[1], .channels_are_last = true};
  return ImageShape{.channels = s[0], .height = s[1], .width = s[2]};
}

}  // namespace tandem::rl
