// rl/policy/action_family.h: which distribution a policy's actions come from, for each kind of action space.
//
// A family joins an action space, the tensors that a policy's forward() returns, a distribution of
// model/distribution/distribution.h and the way from its draws to actions within the bounds. A new family is added
// here, to ActionSampler, and to policy_export.cc.
//
// Threads: free functions on values.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tandem/model/distribution/distribution.h"
#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// Each family with the parameters that it needs, as a policy's forward() returns them for B rows:
enum class ActionFamily {
  kCategorical,          // Discrete:      logits [B, n]
  kMultiCategorical,     // MultiDiscrete: logits [B, sum of n]
  kNormal,               // Box:           mean [B, size], log_std [size] or [B, size]
  kSquashedNormal,       // Box:           mean [B, size], log_std [size] or [B, size], both before tanh
  kStateDependentNoise,  // Box:           mean [B, size], latent [B, features], log_std [features, size]
};

/// "categorical", "multi_categorical", "normal", "squashed_normal", "state_dependent_noise".
[[nodiscard]] const char* name_of(ActionFamily family);
/// The family of that name. Throws ConfigError listing the names.
[[nodiscard]] ActionFamily action_family(std::string_view name);

/// The usual family of an action space: categorical, multi_categorical or normal.
[[nodiscard]] ActionFamily usual_family(const ActionSpace& space);
/// Throws ConfigError naming the families that fit when `family` cannot give actions of `space`, or when `space` has a
/// side without bounds and the family needs them (squashed_normal).
void check_family(ActionFamily family, const ActionSpace& space);

/// The last dimension of the first parameter, which is the number of outputs of a policy's head.
[[nodiscard]] std::int64_t head_size(const ActionSpace& space);

/// The distribution over actions. `mask` as in Categorical, [B, mask elements] or undefined; only for discrete
/// families. Throws ConfigError when the number or the shapes of the parameters do not fit.
[[nodiscard]] std::unique_ptr<model::Distribution> make_distribution(ActionFamily family, const ActionSpace& space,
                                                                     const std::vector<at::Tensor>& parameters,
                                                                     const at::Tensor& mask = {});

/// Turns `rows` rows of Box actions as the policy gave them into those that the environment takes. Policies act in
/// units of the bounds: -1 is the lowest action and 1 the highest one, whatever the bounds are, and what lies beyond is
/// clipped. An element that lacks a bound is taken as it is, and clipped to the other one. `given` and `taken` may be
/// one array. Log-probabilities stay those of the actions as given.
void to_bounds(const Box& box, const float* given, std::int64_t rows, float* taken);

}  // namespace tandem::rl
