// rl/algo/entropy.h: the entropy of a policy's actions, for bonuses.
#pragma once
#include <ATen/core/Tensor.h>

#include "tandem/model/distribution/distribution.h"
#include "tandem/model/shard_random.h"

namespace tandem::rl {

/// Returns the entropy of each row; where there is no closed form, an estimate with model::current_generator().
/// The result has gradients. An estimate draws random numbers, so it changes the stream of its shard.
[[nodiscard]] inline at::Tensor entropy_of(const model::Distribution& distribution) {
  return distribution.has_entropy() ? distribution.entropy()
                                    : distribution.entropy_estimate(model::current_generator());
}

}  // namespace tandem::rl
