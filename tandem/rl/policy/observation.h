// rl/policy/observation.h: observations as tensors, one a leaf of the environment's spec.
//
// Row r of each tensor is of environment r, as env_group.h writes them. Element types stay what they are in the
// environment: images remain uint8 until the policy converts them.
//
// Threads: free functions on values.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// One tensor a leaf, in the order of Spec::observation: [rows, leaf.shape...].
using Observation = std::vector<at::Tensor>;

/// The dtype of a leaf's tensor: float32, uint8 or int64.
[[nodiscard]] at::ScalarType scalar_type(ElementType type);

/// Tensors over memory that the caller owns and keeps alive: `leaves[l]` points to rows * leaf.bytes() bytes.
[[nodiscard]] Observation view_observation(const Spec& spec, std::span<std::byte* const> leaves, std::int64_t rows);

/// Throws ConfigError naming the leaf when `observation` is not [rows, ...] of `spec`, with one number of rows.
void check_observation(const Spec& spec, const Observation& observation);

}  // namespace tandem::rl
