// Means of areas, calculated in the order and with the roundings of OpenCV's resize(), INTER_AREA (modules/imgproc/src/
// resize.cpp, 4.x), so that pixels are equal: by integers where each side becomes shorter by a whole factor, and else
// by weights in float32.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/images.h"
#include "tandem/rl/env/wrappers/leaf_map.h"

namespace tandem::rl {
namespace {

// A share that one of our pixels has in a pixel that is shown, along one side.
struct Share {
  std::size_t shown = 0, own = 0;
  float weight = 0;
};

double scale_of(std::int64_t own, std::int64_t shown) {
  return 1.0 / (static_cast<double>(shown) / static_cast<double>(own));
}

// OpenCV's computeResizeAreaTab().
std::vector<Share> shares_of(std::int64_t own, std::int64_t shown) {
  constexpr double kLeast = 1e-3;  // what a pixel must have to count
  const double scale = scale_of(own, shown);
  std::vector<Share> shares;
  for (std::int64_t s = 0; s < shown; ++s) {
    const double begin = static_cast<double>(s) * scale, end = begin + scale;
    const double width = std::min(scale, static_cast<double>(own) - begin);
    const std::int64_t last = std::min(static_cast<std::int64_t>(std::floor(end)), own - 1);
    const std::int64_t first = std::min(static_cast<std::int64_t>(std::ceil(begin)), last);
    const auto add = [&](std::int64_t at, double weight) {
      shares.push_back({.shown = static_cast<std::size_t>(s),
                        .own = static_cast<std::size_t>(at),
                        .weight = static_cast<float>(weight)});
    };
    if (static_cast<double>(first) - begin > kLeast) add(first - 1, (static_cast<double>(first) - begin) / width);
    for (std::int64_t at = first; at < last; ++at) add(at, 1.0 / width);
    const double rest = end - static_cast<double>(last);
    if (rest > kLeast) add(last, std::min(std::min(rest, 1.0), width) / width);
  }
  return shares;
}

// Half a pixel goes to the even number, as of OpenCV's cvRound().
std::uint8_t rounded(float pixel) { return static_cast<std::uint8_t>(std::clamp(std::nearbyint(pixel), 0.0F, 255.0F)); }

// One plane of an image: each pixel is `step` bytes behind the one on its left.
struct Plane {
  std::size_t height = 0, width = 0, step = 1;
};

class ResizeMap final : public LeafMap {
 public:
  ResizeMap(const ImageShape& own, const ImageSize& size)
      : channels_(static_cast<std::size_t>(own.channels)),
        channels_are_last_(own.channels_are_last),
        own_(plane_of(own, own.height, own.width)),
        shown_(plane_of(own, size.height, size.width)) {
    if (own.height % size.height == 0 && own.width % size.width == 0) return;
    rows_ = shares_of(own.height, size.height);
    columns_ = shares_of(own.width, size.width);
    row_.resize(shown_.width);
    sum_.resize(shown_.width);
  }

  void show(const std::byte* own, std::byte* shown) override {
    const auto* from = reinterpret_cast<const std::uint8_t*>(own);
    auto* to = reinterpret_cast<std::uint8_t*>(shown);
    for (std::size_t c = 0; c < channels_; ++c) {
      const std::uint8_t* own_plane = from + (channels_are_last_ ? c : c * own_.height * own_.width);
      std::uint8_t* shown_plane = to + (channels_are_last_ ? c : c * shown_.height * shown_.width);
      rows_.empty() ? show_by_blocks(own_plane, shown_plane) : show_by_shares(own_plane, shown_plane);
    }
  }

 private:
  static Plane plane_of(const ImageShape& image, std::int64_t height, std::int64_t width) {
    return {.height = static_cast<std::size_t>(height),
            .width = static_cast<std::size_t>(width),
            .step = image.channels_are_last ? static_cast<std::size_t>(image.channels) : 1};
  }

  // Blocks of two by two are rounded up at a half, and all others to even.
  void show_by_blocks(const std::uint8_t* own, std::uint8_t* shown) const {
    const std::size_t high = own_.height / shown_.height, wide = own_.width / shown_.width;
    const float scale = 1.0F / static_cast<float>(high * wide);
    for (std::size_t y = 0; y < shown_.height; ++y) {
      for (std::size_t x = 0; x < shown_.width; ++x) {
        unsigned sum = 0;
        for (std::size_t i = y * high; i < (y + 1) * high; ++i) {
          for (std::size_t j = x * wide; j < (x + 1) * wide; ++j) sum += own[(i * own_.width + j) * own_.step];
        }
        shown[(y * shown_.width + x) * shown_.step] = high == 2 && wide == 2 ? static_cast<std::uint8_t>((sum + 2) / 4)
                                                                             : rounded(static_cast<float>(sum) * scale);
      }
    }
  }

  // Each of our rows becomes narrower first, and counts in the one or two rows that have a share of it.
  void show_by_shares(const std::uint8_t* own, std::uint8_t* shown) {
    std::ranges::fill(sum_, 0.0F);
    std::size_t current = 0;
    for (const Share& row : rows_) {
      std::ranges::fill(row_, 0.0F);
      const std::uint8_t* line = own + row.own * own_.width * own_.step;
      for (const Share& column : columns_)
        row_[column.shown] += static_cast<float>(line[column.own * own_.step]) * column.weight;
      if (row.shown != current) {
        write_row(current, shown);
        current = row.shown;
        for (std::size_t x = 0; x < row_.size(); ++x) sum_[x] = row.weight * row_[x];
      } else {
        for (std::size_t x = 0; x < row_.size(); ++x) sum_[x] += row.weight * row_[x];
      }
    }
    write_row(current, shown);
  }
  void write_row(std::size_t y, std::uint8_t* shown) const {
    for (std::size_t x = 0; x < sum_.size(); ++x) shown[(y * shown_.width + x) * shown_.step] = rounded(sum_[x]);
  }

  const std::size_t channels_;
  const bool channels_are_last_;
  const Plane own_, shown_;
  std::vector<Share> rows_, columns_;  // empty where sides become shorter by whole factors
  std::vector<float> row_, sum_;       // of one row that is shown
};

std::string why_not_resized(const Leaf& leaf, const ImageSize& size) {
  const auto shape = image_shape(leaf);
  if (!shape) return concat("is ", name_of(leaf.type), "[", joined(leaf.shape), "], no uint8 image");
  if (size.height <= shape->height && size.width <= shape->width) return "";
  return concat("is an image of ", shape->height, "x", shape->width, ", and ", size.height, "x", size.width,
                " is larger; images become smaller");
}

// Bounds of single pixels say nothing of means, but those of all pixels do.
Leaf resized_leaf(const Leaf& own, const ImageSize& size) {
  Leaf leaf{.name = own.name, .type = own.type, .shape = own.shape};
  const std::size_t side = own.shape.size() == 2 || image_shape(own)->channels_are_last ? 0 : 1;
  leaf.shape[side] = size.height;
  leaf.shape[side + 1] = size.width;
  if (own.low.empty()) return leaf;
  leaf.low.assign(static_cast<std::size_t>(leaf.count()), *std::ranges::min_element(own.low));
  leaf.high.assign(static_cast<std::size_t>(leaf.count()), *std::ranges::max_element(own.high));
  return leaf;
}

}  // namespace

EnvWrapper resize(const ImageSize& size, const std::string& leaf) {
  return leaf_wrapper({.name = concat("resize=", size.height, "x", size.width),
                       .why_not = [size](const Leaf& own) { return why_not_resized(own, size); },
                       .shown = [size](const Leaf& own) { return resized_leaf(own, size); },
                       .map = [size](const Leaf& own) -> std::unique_ptr<LeafMap> {
                         return std::make_unique<ResizeMap>(*image_shape(own), size);
                       }},
                      leaf);
}

}  // namespace tandem::rl
