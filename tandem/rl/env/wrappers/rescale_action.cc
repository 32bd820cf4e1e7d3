#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/affine.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

Spec with_rescaled_actions(const Spec& inner, const ValueRange& range) {
  const auto* box = std::get_if<Box>(&inner.action);
  if (box == nullptr) throw ConfigError(concat("the environment's actions are ", describe(inner.action), ", no Box"));
  for (std::size_t i = 0; i < box->low.size(); ++i) {
    if (!std::isfinite(box->low[i]) || !std::isfinite(box->high[i]) || !(box->low[i] < box->high[i]))
      throw ConfigError(concat("element ", i, " of the environment's actions is within ", box->low[i], " .. ",
                               box->high[i], "; only bounds that are finite, and differ, can be rescaled"));
  }
  Spec spec = inner;
  spec.action = Box{.low = std::vector(box->low.size(), range.low), .high = std::vector(box->high.size(), range.high)};
  return spec;
}

class RescaledActions final : public WrappingGroup {
 public:
  RescaledActions(std::unique_ptr<EnvGroup> inner_group, const ValueRange& range)
      : WrappingGroup(std::move(inner_group), "rescale_action",
                      [&](const Spec& its) { return with_rescaled_actions(its, range); }) {
    const auto& own = std::get<Box>(inner().spec().action);
    for (std::size_t i = 0; i < own.low.size(); ++i) {
      elements_.push_back({.line = Affine<float>::between({.low = own.low[i], .high = own.high[i]}, range),
                           .low = static_cast<float>(own.low[i]),
                           .high = static_cast<float>(own.high[i])});
    }
    actions_.resize(rows() * elements_.size());
  }

 protected:
  // Numbers that are not finite pass as they are, for the inner group to name them.
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const Element& element = elements_[i % elements_.size()];
      const float own = element.line.backward(actions.box[i]);
      actions_[i] = std::isfinite(own) ? std::clamp(own, element.low, element.high) : own;
    }
    step_inner(which, {.box = actions_.data()}, out);
  }

 private:
  struct Element {
    Affine<float> line;
    float low = 0, high = 0;
  };
  std::vector<Element> elements_;  // of one action
  std::vector<float> actions_;     // [environments, elements]
};

}  // namespace

EnvWrapper rescale_action(const ValueRange& range) {
  return {.spec_of = [range](const Spec& inner) { return with_rescaled_actions(inner, range); },
          .around = [range](std::unique_ptr<EnvGroup> inner, std::uint64_t /*place*/) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<RescaledActions>(std::move(inner), range);
          },
          .stacks_of = same_stacks};
}

}  // namespace tandem::rl
