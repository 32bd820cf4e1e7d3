// Policies as users write them: torch::nn modules with eager operations, for actions of one choice.
#pragma once
#include <memory>

#include "tandem/rl/policy/policy.h"

namespace tandem::bench {

/// Four blocks of layer norm, 128 units, ReLU and 128 units around a sum, for actor and critic together.
[[nodiscard]] std::shared_ptr<rl::ActorCritic> residual_policy(const rl::Spec& spec);
/// Each number of the observation is a token of 32 numbers; two layers of a transformer with four heads and 64 units,
/// and the mean over the tokens.
[[nodiscard]] std::shared_ptr<rl::ActorCritic> transformer_policy(const rl::Spec& spec);

}  // namespace tandem::bench
