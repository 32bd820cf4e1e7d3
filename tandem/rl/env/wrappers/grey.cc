#include <utility>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/images.h"
#include "tandem/rl/env/wrappers/leaf_map.h"

namespace tandem::rl {
namespace {

class GreyMap final : public LeafMap {
 public:
  explicit GreyMap(const ImageShape& shape)
      : pixels_(static_cast<std::size_t>(shape.height * shape.width)),
        next_pixel_(shape.channels_are_last ? 3 : 1),
        next_colour_(shape.channels_are_last ? 1 : pixels_) {}

  // The weights, the order of the sum and the rounding are GrayscaleObservation's.
  void show(const std::byte* own, std::byte* shown) override {
    const auto* red = reinterpret_cast<const std::uint8_t*>(own);
    const std::uint8_t *green = red + next_colour_, *blue = green + next_colour_;
    for (std::size_t i = 0; i < pixels_; ++i) {
      const std::size_t at = i * next_pixel_;
      const double grey = (red[at] * 0.2125 + green[at] * 0.7154) + blue[at] * 0.0721;
      shown[i] = static_cast<std::byte>(static_cast<std::uint8_t>(grey));
    }
  }

 private:
  const std::size_t pixels_, next_pixel_, next_colour_;
};

std::string why_not_grey(const Leaf& leaf) {
  const auto shape = image_shape(leaf);
  return shape && leaf.shape.size() == 3 && shape->channels == 3
             ? ""
             : concat("is ", name_of(leaf.type), "[", joined(leaf.shape), "], no image of three colours");
}

// The leaf's own bounds hold for any mean of its colours, if all pixels have them.
Leaf grey_leaf(const Leaf& own) {
  const ImageShape shape = *image_shape(own);
  Leaf leaf{.name = own.name, .type = own.type, .shape = {1, shape.height, shape.width}};
  if (own.low.empty()) return leaf;
  leaf.low.assign(static_cast<std::size_t>(leaf.count()), 0);
  leaf.high.assign(static_cast<std::size_t>(leaf.count()), 255);
  return leaf;
}

}  // namespace

EnvWrapper grey(const std::string& leaf) {
  return leaf_wrapper(
      {.name = "grey",
       .why_not = why_not_grey,
       .shown = grey_leaf,
       .map = [](const Leaf& own) -> std::unique_ptr<LeafMap> { return std::make_unique<GreyMap>(*image_shape(own)); }},
      leaf);
}

}  // namespace tandem::rl
