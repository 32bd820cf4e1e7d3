// rl/policy/make_actor.h: the actor that suits a policy.
#pragma once
#include <cstdint>
#include <memory>

#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/actor/actor_options.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// MlpActor for an MlpPolicy that it can run, on the CPU whatever the policy's device, unless the policy lies on
/// another device and a step of `rows` rows is so much work that going there is worth it; else ModuleActor. It is for
/// `rows` rows of env group `group`, with the stream that the run's seed and the group's number decide. `policy` must
/// outlive it.
[[nodiscard]] std::unique_ptr<Actor> make_actor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows,
                                                std::uint64_t run_seed, int group);

}  // namespace tandem::rl
