// rl/rollout/act_on.h: acting on observations, whose errors tell of what was seen.
//
// Threads: the caller's, as the actor's.
#pragma once
#include "tandem/rl/policy/actor/actor.h"

namespace tandem::rl {

/// actor.act(). A RunError of it, as about actions that are not finite, gets a sentence about the largest number among
/// the observations, by leaf, element and row, where it is so large that it is likely the cause. `spec`: the policy's.
void act_on(const Spec& spec, Actor& actor, const Observation& observation, const at::Tensor& mask,
            const Decisions& out);

}  // namespace tandem::rl
