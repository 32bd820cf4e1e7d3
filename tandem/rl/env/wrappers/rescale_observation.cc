#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/wrappers/affine.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/leaf_map.h"

namespace tandem::rl {
namespace {

// Elements of 64 bits are rescaled in 64 bits, and rounded to float32 behind it: small steps of a large number count.
template <typename Element>
using RealOf = std::conditional_t<std::is_same_v<Element, double>, double, float>;

template <typename Element>
class RescaleMap final : public LeafMap {
 public:
  RescaleMap(const Leaf& own, const ValueRange& range) : own_(own) {
    for (std::int64_t i = 0; i < own.count(); ++i)
      lines_.push_back(Affine<Real>::between(bounds_of(own, static_cast<std::size_t>(i)), range));
  }

  void show(const std::byte* own, std::byte* shown) override {
    const auto from = elements_at<Element>(own, own_.count());
    const auto to = elements_at<float>(shown, own_.count());
    for (std::size_t i = 0; i < lines_.size(); ++i)
      to[i] = static_cast<float>(lines_[i].forward(static_cast<Real>(from[i])));
    const auto at = first_not_finite(std::span<const float>(to));
    if (at)
      throw EnvError(concat("element ", *at, " of observation leaf '", own_.name, "' is ", to[*at],
                            " once it is rescaled, because it is ", from[*at], ", far beyond its bounds"));
  }

 private:
  using Real = RealOf<Element>;

  const Leaf own_;
  std::vector<Affine<Real>> lines_;  // by element
};

std::string why_not_rescaled(const Leaf& leaf) {
  if (leaf.type == ElementType::kInt64) return "is int64: its elements are choices, and policies show them one-hot";
  for (std::int64_t i = 0; i < leaf.count(); ++i) {
    const ValueRange bounds = bounds_of(leaf, static_cast<std::size_t>(i));
    if (!std::isfinite(bounds.low) || !std::isfinite(bounds.high) || !(bounds.low < bounds.high))
      return concat("has bounds ", bounds.low, " .. ", bounds.high, " in element ", i,
                    "; only bounds that are finite, and differ, can be rescaled (normalize.observations learns them)");
  }
  return "";
}

}  // namespace

EnvWrapper rescale_observation(const ValueRange& range, const std::string& leaf) {
  return leaf_wrapper({.name = "rescale_observation",
                       .why_not = why_not_rescaled,
                       .shown =
                           [range](const Leaf& own) {
                             const auto count = static_cast<std::size_t>(own.count());
                             return Leaf{.name = own.name,
                                         .type = ElementType::kFloat32,
                                         .shape = own.shape,
                                         .low = std::vector(count, range.low),
                                         .high = std::vector(count, range.high)};
                           },
                       .map = [range](const Leaf& own) -> std::unique_ptr<LeafMap> {
                         return with_element_type(own.type, [&](auto element) -> std::unique_ptr<LeafMap> {
                           return std::make_unique<RescaleMap<decltype(element)>>(own, range);
                         });
                       }},
                      leaf);
}

}  // namespace tandem::rl
