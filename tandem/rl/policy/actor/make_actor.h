// rl/policy/actor/make_actor.h: the actor that suits a policy.
#pragma once
#include <cstdint>
#include <memory>

#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/actor/actor_options.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Makes an MlpActor for an MlpPolicy that MlpActor can run, else a ModuleActor. An MlpActor runs on the CPU whatever
/// the policy's device; it is not taken when the policy lies on another device and a step of `rows` rows is so much
/// work that the way there is worth it. The actor is for `rows` rows of env group `group`, and its random stream
/// follows from the run's seed and the group's number. `policy` must outlive the actor.
[[nodiscard]] std::unique_ptr<Actor> make_actor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows,
                                                std::uint64_t run_seed, int group);

}  // namespace tandem::rl
