#include "tandem/rl/policy/action_family.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "tandem/model/distribution/categorical.h"
#include "tandem/model/distribution/normal.h"
#include "tandem/rl/policy/names.h"

namespace tandem::rl {
namespace {

constexpr Names<5> kFamilies{"categorical", "multi_categorical", "normal", "squashed_normal", "state_dependent_noise"};

bool fits(ActionFamily family, const ActionSpace& space) {
  if (family == ActionFamily::kCategorical) return std::holds_alternative<Discrete>(space);
  if (family == ActionFamily::kMultiCategorical) return std::holds_alternative<MultiDiscrete>(space);
  return std::holds_alternative<Box>(space);
}

// Whether all bounds are finite, so that (-1, 1) can be stretched to them.
bool is_bounded(const Box& box) {
  const auto finite = [](double bound) { return std::isfinite(bound); };
  return std::all_of(box.low.begin(), box.low.end(), finite) && std::all_of(box.high.begin(), box.high.end(), finite);
}

}  // namespace

std::int64_t head_size(const ActionSpace& space) {
  return std::holds_alternative<Box>(space) ? action_elements(space) : mask_elements(space);
}

const char* name_of(ActionFamily family) { return name_in(kFamilies, family); }

ActionFamily action_family(std::string_view name) {
  return value_in<ActionFamily>(kFamilies, name, "family of action distributions");
}

ActionFamily usual_family(const ActionSpace& space) {
  if (std::holds_alternative<Discrete>(space)) return ActionFamily::kCategorical;
  if (std::holds_alternative<MultiDiscrete>(space)) return ActionFamily::kMultiCategorical;
  return ActionFamily::kNormal;
}

void check_family(ActionFamily family, const ActionSpace& space) {
  if (!fits(family, space)) {
    std::string fitting;
    for (std::size_t i = 0; i < kFamilies.size(); ++i) {
      if (fits(static_cast<ActionFamily>(i), space)) fitting += concat(fitting.empty() ? "" : ", ", kFamilies[i]);
    }
    throw ConfigError(
        concat("actions of ", describe(space), " cannot come from ", name_of(family), "; what fits: ", fitting));
  }
  if (family == ActionFamily::kSquashedNormal && !is_bounded(std::get<Box>(space))) {
    throw ConfigError(concat("squashed_normal needs finite bounds of the actions, and ", describe(space),
                             " has an infinite one; use normal"));
  }
}

// The checks come first, because a policy of the user's own may return anything; the constructors of the distributions
// check the remaining shapes.
std::unique_ptr<model::Distribution> make_distribution(ActionFamily family, const ActionSpace& space,
                                                       const std::vector<at::Tensor>& parameters,
                                                       const at::Tensor& mask) {
  const std::size_t needed = family == ActionFamily::kStateDependentNoise ? 3
                             : std::holds_alternative<Box>(space)         ? 2
                                                                          : 1;
  if (!fits(family, space) || parameters.size() != needed) {
    throw ConfigError(concat("a policy for ", describe(space), " with ", name_of(family), " must give ", needed,
                             " tensors of action parameters (see action_family.h); it gave ", parameters.size()));
  }
  if (parameters[0].dim() < 1 || parameters[0].size(-1) != head_size(space)) {
    throw ConfigError(concat("a policy for ", describe(space), " must give action parameters [rows, ", head_size(space),
                             "]; it gave ", parameters[0].sizes()));
  }
  if (mask.defined() && needed != 1) {
    throw ConfigError(
        concat("an action mask was given for ", describe(space), "; only discrete actions can be masked"));
  }
  switch (family) {
    case ActionFamily::kCategorical:
      return std::make_unique<model::Categorical>(parameters[0], mask);
    case ActionFamily::kMultiCategorical:
      return std::make_unique<model::MultiCategorical>(parameters[0], std::get<MultiDiscrete>(space).n, mask);
    case ActionFamily::kNormal:
      return std::make_unique<model::Normal>(parameters[0], parameters[1]);
    case ActionFamily::kSquashedNormal:
      return std::make_unique<model::SquashedNormal>(parameters[0], parameters[1]);
    case ActionFamily::kStateDependentNoise:
      return std::make_unique<model::StateDependentNoise>(parameters[0], parameters[1], parameters[2]);
  }
  return nullptr;
}

void to_bounds(const Box& box, const float* given, std::int64_t rows, float* taken) {
  const std::size_t size = box.low.size();
  for (std::int64_t row = 0; row < rows; ++row, given += size, taken += size) {
    for (std::size_t i = 0; i < size; ++i) {
      const double low = box.low[i], high = box.high[i];
      const bool has_range = std::isfinite(low) && std::isfinite(high);
      const double action = has_range ? 0.5 * (low + high) + given[i] * 0.5 * (high - low) : given[i];
      taken[i] = static_cast<float>(std::clamp(action, low, high));
    }
  }
}

}  // namespace tandem::rl
