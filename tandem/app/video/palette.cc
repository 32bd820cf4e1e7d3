#include "tandem/app/video/palette.h"

#include <algorithm>
#include <limits>

namespace tandem::app {
namespace {

constexpr std::size_t kBins = std::size_t{1} << 18;

// A colour as numbers, and how many pixels have it.
struct Weighted {
  std::array<double, 3> color;
  double weight;
};

// Some colours that will become one.
struct Box {
  std::size_t begin = 0, end = 0;
  std::array<double, 3> mean = {};
  std::size_t widest = 0;  // the channel with the largest squared error
  double error = 0;        // of that channel, summed over the pixels
};

Box box_of(const std::vector<Weighted>& colors, std::size_t begin, std::size_t end) {
  Box box{.begin = begin, .end = end};
  double weight = 0;
  std::array<double, 3> squares{};
  for (std::size_t i = begin; i < end; ++i) {
    weight += colors[i].weight;
    for (std::size_t c = 0; c < 3; ++c) box.mean[c] += colors[i].weight * colors[i].color[c];
  }
  for (double& mean : box.mean) mean /= weight;
  for (std::size_t i = begin; i < end; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      const double apart = colors[i].color[c] - box.mean[c];
      squares[c] += colors[i].weight * apart * apart;
    }
  }
  box.widest = static_cast<std::size_t>(std::ranges::max_element(squares) - squares.begin());
  box.error = squares[box.widest];
  return box;
}

}  // namespace

Palette::Palette() : bins_(kBins) {}

void Palette::count(std::span<const std::uint8_t> rgb) {
  std::uint32_t last = std::numeric_limits<std::uint32_t>::max();  // no colour
  for (std::size_t i = 0; i + 2 < rgb.size(); i += 3) {
    Bin& bin = bins_[bin_of(rgb[i], rgb[i + 1], rgb[i + 2])];
    ++bin.count;
    for (std::size_t c = 0; c < 3; ++c) bin.sum[c] += rgb[i + c];
    const std::uint32_t color = std::uint32_t{rgb[i]} << 16 | std::uint32_t{rgb[i + 1]} << 8 | rgb[i + 2];
    // Neighbours are mostly equal, and a map with more colours than the palette has is of no use.
    if (color == last || exact_.size() > kMost) continue;
    last = color;
    exact_.emplace(color, 0);
  }
}

void Palette::choose(std::size_t most) {
  is_exact_ = exact_.size() <= most;
  if (!is_exact_) {
    cut(most);
    find_nearest();
    return;
  }
  for (auto& [color, index] : exact_) {
    index = static_cast<std::uint8_t>(colors_.size());
    colors_.push_back({static_cast<std::uint8_t>(color >> 16), static_cast<std::uint8_t>(color >> 8),
                       static_cast<std::uint8_t>(color)});
  }
}

void Palette::cut(std::size_t most) {
  std::vector<Weighted> colors;
  for (const Bin& bin : bins_) {
    if (bin.count == 0) continue;
    const auto weight = static_cast<double>(bin.count);
    colors.push_back({{static_cast<double>(bin.sum[0]) / weight, static_cast<double>(bin.sum[1]) / weight,
                       static_cast<double>(bin.sum[2]) / weight},
                      weight});
  }
  std::vector<Box> boxes{box_of(colors, 0, colors.size())};
  while (boxes.size() < most) {
    const auto worst = std::ranges::max_element(boxes, {}, &Box::error);
    if (worst->error <= 0) break;  // every colour has its own
    const Box box = *worst;
    const auto first = colors.begin() + static_cast<std::ptrdiff_t>(box.begin);
    const auto last = colors.begin() + static_cast<std::ptrdiff_t>(box.end);
    const auto middle = std::partition(
        first, last, [&](const Weighted& each) { return each.color[box.widest] <= box.mean[box.widest]; });
    const auto at = static_cast<std::size_t>(middle - colors.begin());
    if (at == box.begin || at == box.end) {  // rounding: nothing lies beyond the mean
      worst->error = 0;
      continue;
    }
    *worst = box_of(colors, box.begin, at);
    boxes.push_back(box_of(colors, at, box.end));
  }
  for (const Box& box : boxes) {
    Rgb color{};
    for (std::size_t c = 0; c < 3; ++c) color[c] = static_cast<std::uint8_t>(std::clamp(box.mean[c] + 0.5, 0.0, 255.0));
    colors_.push_back(color);
  }
}

void Palette::find_nearest() {
  nearest_.assign(kBins, 0);
  for (std::size_t b = 0; b < kBins; ++b) {
    const Bin& bin = bins_[b];
    if (bin.count == 0) continue;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < colors_.size(); ++i) {
      double apart = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const double by = static_cast<double>(bin.sum[c]) / static_cast<double>(bin.count) - colors_[i][c];
        apart += by * by;
      }
      if (apart >= best) continue;
      best = apart;
      nearest_[b] = static_cast<std::uint8_t>(i);
    }
  }
}

}  // namespace tandem::app
