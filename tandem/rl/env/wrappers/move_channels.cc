#include <utility>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/leaf_map.h"

namespace tandem::rl {
namespace {

// A leaf of three dimensions as a matrix of `rows` x `columns`, which becomes its transpose: of [height, width,
// channels], the pixels by the channels.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
};

template <typename Element>
void transpose(const Matrix& from, std::span<const Element> own, std::span<Element> shown) {
  const auto rows = static_cast<std::size_t>(from.rows), columns = static_cast<std::size_t>(from.columns);
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t r = 0; r < rows; ++r) shown[c * rows + r] = own[r * columns + c];
  }
}

class TransposeMap final : public LeafMap {
 public:
  TransposeMap(ElementType type, const Matrix& own) : type_(type), own_(own) {}

  void show(const std::byte* own, std::byte* shown) override {
    with_element_type(type_, [&](auto element) {
      using Element = decltype(element);
      const std::int64_t count = own_.rows * own_.columns;
      transpose(own_, elements_at<Element>(own, count), elements_at<Element>(shown, count));
    });
  }

 private:
  const ElementType type_;
  const Matrix own_;
};

std::string why_not_moved(const Leaf& leaf) {
  return leaf.shape.size() == 3 ? "" : concat("is ", name_of(leaf.type), "[", joined(leaf.shape), "], no image");
}

// Bounds move with their elements.
Leaf transposed(const Leaf& own, std::vector<std::int64_t> shape, const Matrix& matrix) {
  Leaf leaf = own;
  leaf.shape = std::move(shape);
  if (own.low.empty()) return leaf;
  transpose<double>(matrix, own.low, leaf.low);
  transpose<double>(matrix, own.high, leaf.high);
  return leaf;
}

Matrix pixels_by_channels(const Leaf& leaf) {
  return {.rows = leaf.shape[0] * leaf.shape[1], .columns = leaf.shape[2]};
}
Matrix channels_by_pixels(const Leaf& leaf) {
  return {.rows = leaf.shape[0], .columns = leaf.shape[1] * leaf.shape[2]};
}

}  // namespace

EnvWrapper channels_first(const std::string& leaf) {
  return leaf_wrapper({.name = "channels_first",
                       .why_not = why_not_moved,
                       .shown =
                           [](const Leaf& own) {
                             const auto& s = own.shape;
                             return transposed(own, {s[2], s[0], s[1]}, pixels_by_channels(own));
                           },
                       .map = [](const Leaf& own) -> std::unique_ptr<LeafMap> {
                         return std::make_unique<TransposeMap>(own.type, pixels_by_channels(own));
                       }},
                      leaf);
}

EnvWrapper channels_last(const std::string& leaf) {
  return leaf_wrapper({.name = "channels_last",
                       .why_not = why_not_moved,
                       .shown =
                           [](const Leaf& own) {
                             const auto& s = own.shape;
                             return transposed(own, {s[1], s[2], s[0]}, channels_by_pixels(own));
                           },
                       .map = [](const Leaf& own) -> std::unique_ptr<LeafMap> {
                         return std::make_unique<TransposeMap>(own.type, channels_by_pixels(own));
                       }},
                      leaf);
}

}  // namespace tandem::rl
