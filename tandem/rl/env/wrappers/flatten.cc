#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/env/wrappers/leaf_map.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kMostFlatElements = 1 << 24;  // more have no exact index as float32, and no policy takes them

// Elements that one element of a leaf becomes.
std::int64_t options_of(const Leaf& leaf, std::size_t element) {
  if (leaf.type != ElementType::kInt64) return 1;
  const ValueRange bounds = bounds_of(leaf, element);
  if (!std::isfinite(bounds.low) || !std::isfinite(bounds.high))
    throw ConfigError(
        concat("leaf '", leaf.name, "' is int64 without bounds, so its elements cannot be shown one-hot"));
  const double options = bounds.high - bounds.low + 1;
  if (options > static_cast<double>(kMostFlatElements))
    throw ConfigError(concat("element ", element, " of leaf '", leaf.name, "' has ", options, " values; at most ",
                             kMostFlatElements, " are shown one-hot"));
  return static_cast<std::int64_t>(options);
}

// float64 where a leaf has it, since float32 would not hold its values.
ElementType flat_type(const Spec& inner) {
  return std::ranges::find(inner.observation, ElementType::kFloat64, &Leaf::type) == inner.observation.end()
             ? ElementType::kFloat32
             : ElementType::kFloat64;
}

// The one leaf; bounds that no leaf has are left out.
Spec flattened(const Spec& inner) {
  Leaf flat{.name = "obs", .type = flat_type(inner)};
  std::int64_t count = 0;
  for (const Leaf& leaf : inner.observation) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(leaf.count()); ++i) {
      const std::int64_t options = options_of(leaf, i);
      const bool is_choice = leaf.type == ElementType::kInt64;
      const ValueRange bounds = is_choice ? ValueRange{0, 1} : bounds_of(leaf, i);
      count += options;
      if (count > kMostFlatElements)
        throw ConfigError(concat("it would show more than ", kMostFlatElements, " elements"));
      flat.low.insert(flat.low.end(), static_cast<std::size_t>(options), bounds.low);
      flat.high.insert(flat.high.end(), static_cast<std::size_t>(options), bounds.high);
    }
  }
  flat.shape = {count};
  const auto is_infinite = [](double bound) { return std::isinf(bound); };
  if (std::ranges::all_of(flat.low, is_infinite) && std::ranges::all_of(flat.high, is_infinite))
    flat.low = flat.high = {};
  Spec spec = inner;
  spec.observation = {flat};
  return spec;
}

class FlatGroup final : public WrappingGroup {
 public:
  explicit FlatGroup(std::unique_ptr<EnvGroup> inner_group)
      : WrappingGroup(std::move(inner_group), "flatten", flattened) {
    for (const Leaf& leaf : inner().spec().observation) {
      Part& part = parts_.emplace_back(Part{.leaf = leaf});
      part.now.resize(rows() * leaf.bytes());
      part.last.resize(rows() * leaf.bytes());
      for (std::size_t i = 0; leaf.type == ElementType::kInt64 && i < static_cast<std::size_t>(leaf.count()); ++i)
        part.options.push_back(options_of(leaf, i));
    }
  }

 protected:
  const EnvArrays& first_arrays(const EnvArrays& out) override {
    arrays_ = out;  // takes no memory but at first
    arrays_.observation.resize(parts_.size());
    arrays_.final_observation.resize(out.final_observation.empty() ? 0 : parts_.size());
    for (std::size_t l = 0; l < parts_.size(); ++l) {
      arrays_.observation[l] = parts_[l].now.data();
      if (!out.final_observation.empty()) arrays_.final_observation[l] = parts_[l].last.data();
    }
    return arrays_;
  }
  void begun(std::span<const std::uint64_t> /*seeds*/, const EnvArrays& out) override { loaded(out); }
  void loaded(const EnvArrays& out) override {
    for (std::size_t e = 0; e < rows(); ++e) show(&Part::now, e, out.observation);
  }
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    step_inner(which, actions, first_arrays(out));
    for (std::size_t e = 0; e < rows(); ++e) {
      if (!makes_a_step(which, e)) continue;
      show(&Part::now, e, out.observation);
      if (has_ended(out, e) && !out.final_observation.empty()) show(&Part::last, e, out.final_observation);
    }
  }

 private:
  // A leaf of the inner group, and where that writes it.
  struct Part {
    Leaf leaf;
    std::vector<std::int64_t> options = {};  // by element, of int64
    std::vector<std::byte> now = {}, last = {};
  };

  void show(std::vector<std::byte> Part::*memory, std::size_t e, const std::vector<std::byte*>& leaves) const {
    const Leaf& flat = spec().observation.front();
    with_element_type(flat.type, [&](auto element) {
      using Shown = decltype(element);
      Shown* to = elements_at<Shown>(leaves.front() + e * flat.bytes(), flat.count()).data();
      for (const Part& part : parts_) to = show_part(part, (part.*memory).data() + e * part.leaf.bytes(), to);
    });
  }
  // Writes one row of a leaf, and returns what is behind it.
  template <typename Shown>
  static Shown* show_part(const Part& part, const std::byte* row, Shown* to) {
    return with_element_type(part.leaf.type, [&](auto element) {
      const auto from = elements_at<decltype(element)>(row, part.leaf.count());
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (part.options.empty()) {
          *to++ = static_cast<Shown>(from[i]);
        } else {
          to = show_choice(part, i, static_cast<std::int64_t>(from[i]), to);
        }
      }
      return to;
    });
  }
  // The inner group has compared choices with their bounds.
  template <typename Shown>
  static Shown* show_choice(const Part& part, std::size_t element, std::int64_t value, Shown* to) {
    const std::int64_t options = part.options[element];
    std::fill_n(to, options, Shown{0});
    const std::int64_t choice = value - static_cast<std::int64_t>(part.leaf.low[element]);
    if (choice >= 0 && choice < options) to[choice] = 1;
    return to + options;
  }

  std::vector<Part> parts_;
  EnvArrays arrays_;
};

}  // namespace

EnvWrapper flatten() {
  return {.spec_of = flattened,
          .around = [](std::unique_ptr<EnvGroup> inner, std::uint64_t /*place*/) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<FlatGroup>(std::move(inner));
          }};
}

}  // namespace tandem::rl
