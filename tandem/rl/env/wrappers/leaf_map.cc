#include "tandem/rl/env/wrappers/leaf_map.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

Spec with_changed_leaves(const Spec& inner, const LeafChange& change, const std::string& leaf) {
  const std::vector<bool> is_chosen = chosen_leaves(inner, leaf, change.why_not);
  Spec spec = inner;
  for (std::size_t l = 0; l < is_chosen.size(); ++l) {
    if (is_chosen[l]) spec.observation[l] = change.shown(inner.observation[l]);
  }
  return spec;
}

class ChangedLeaves final : public WrappingGroup {
 public:
  ChangedLeaves(std::unique_ptr<EnvGroup> inner_group, const LeafChange& change, const std::string& leaf)
      : WrappingGroup(std::move(inner_group), change.name,
                      [&](const Spec& its) { return with_changed_leaves(its, change, leaf); }) {
    const std::vector<bool> is_chosen = chosen_leaves(inner().spec(), leaf, change.why_not);
    for (std::size_t l = 0; l < is_chosen.size(); ++l) {
      if (!is_chosen[l]) continue;
      const Leaf& own = inner().spec().observation[l];
      const std::size_t bytes = rows() * own.bytes();
      changed_.push_back({.leaf = l,
                          .own_bytes = own.bytes(),
                          .shown_bytes = spec().observation[l].bytes(),
                          .map = change.map(own),
                          .now = std::vector<std::byte>(bytes),
                          .last = std::vector<std::byte>(bytes)});
    }
  }

 protected:
  const EnvArrays& first_arrays(const EnvArrays& out) override {
    arrays_ = out;  // takes no memory but the first time
    for (Changed& its : changed_) {
      arrays_.observation[its.leaf] = its.now.data();
      if (!out.final_observation.empty()) arrays_.final_observation[its.leaf] = its.last.data();
    }
    return arrays_;
  }
  void begun(std::span<const std::uint64_t> /*seeds*/, const EnvArrays& out) override { loaded(out); }
  void loaded(const EnvArrays& out) override {
    for (Changed& its : changed_) {
      for (std::size_t e = 0; e < rows(); ++e) its.show(its.now, out.observation, e);
    }
  }
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    step_inner(which, actions, first_arrays(out));
    for (Changed& its : changed_) {
      for (std::size_t e = 0; e < rows(); ++e) {
        if (!makes_a_step(which, e)) continue;
        its.show(its.now, out.observation, e);
        if (has_ended(out, e) && !out.final_observation.empty()) its.show(its.last, out.final_observation, e);
      }
    }
  }

 private:
  // A leaf that is shown otherwise, with the memory to which the inner group writes it: now, and at an episode's end.
  struct Changed {
    std::size_t leaf, own_bytes, shown_bytes;
    std::unique_ptr<LeafMap> map;
    std::vector<std::byte> now, last;

    void show(const std::vector<std::byte>& from, const std::vector<std::byte*>& leaves, std::size_t e) {
      map->show(from.data() + e * own_bytes, leaves[leaf] + e * shown_bytes);
    }
  };

  std::vector<Changed> changed_;
  EnvArrays arrays_;
};

}  // namespace

std::vector<bool> chosen_leaves(const Spec& spec, const std::string& name,
                                const std::function<std::string(const Leaf&)>& why_not) {
  std::vector<bool> chosen;
  std::string reasons;
  for (const Leaf& leaf : spec.observation) {
    std::string reason;
    if (name.empty() || leaf.name == name) {
      reason = why_not(leaf);
      if (!reason.empty()) reasons += concat(reasons.empty() ? "" : "; ", "leaf '", leaf.name, "' ", reason);
    }
    chosen.push_back(reason.empty() && (name.empty() || leaf.name == name));
  }
  if (std::ranges::find(chosen, true) != chosen.end()) return chosen;
  if (!reasons.empty()) throw ConfigError(reasons);
  throw ConfigError(concat("the environment has no observation leaf '", name, "'; there are ",
                           joined(spec.observation, [](const Leaf& leaf) { return leaf.name; })));
}

ValueRange bounds_of(const Leaf& leaf, std::size_t element) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (leaf.low.empty()) return leaf.type == ElementType::kUInt8 ? ValueRange{0, 255} : ValueRange{-kNone, kNone};
  return {.low = leaf.low[element], .high = leaf.high[element]};
}

EnvWrapper leaf_wrapper(LeafChange change, std::string leaf) {
  return {.spec_of = [change, leaf](const Spec& inner) { return with_changed_leaves(inner, change, leaf); },
          .around = [change = std::move(change), leaf = std::move(leaf)](
                        std::unique_ptr<EnvGroup> inner, std::uint64_t /*place*/) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<ChangedLeaves>(std::move(inner), change, leaf);
          }};
}

std::vector<std::byte> zero_frame(const Leaf& leaf, std::size_t frames) {
  std::vector<std::byte> frame(leaf.bytes() / frames);
  with_element_type(leaf.type, [&](auto element) {
    using Element = decltype(element);
    const std::span<Element> elements =
        elements_at<Element>(frame.data(), leaf.count() / static_cast<std::int64_t>(frames));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const ValueRange bounds = bounds_of(leaf, i);
      elements[i] = static_cast<Element>(std::clamp(0.0, bounds.low, bounds.high));
    }
  });
  return frame;
}

}  // namespace tandem::rl
