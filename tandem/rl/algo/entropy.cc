#include "tandem/rl/algo/entropy.h"

#include <ATen/ATen.h>

#include "tandem/model/shard_random.h"

namespace tandem::rl {

at::Tensor entropy_of(const model::Distribution& distribution) {
  return distribution.has_entropy() ? distribution.entropy()
                                    : distribution.entropy_estimate(model::current_generator());
}

}  // namespace tandem::rl
