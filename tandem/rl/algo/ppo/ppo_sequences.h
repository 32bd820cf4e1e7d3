// rl/algo/ppo/ppo_sequences.h: a fragment as sequences for a policy that remembers, and back as the rows that are
// learned from.
//
// Threads: any. Ownership: nothing is kept.
#pragma once
#include "tandem/rl/algo/ppo/ppo_columns.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/sequences.h"

namespace tandem::rl {

/// The sequences of a fragment, environment by environment: the columns of ppo_columns(), copied, with "done" and
/// "learned", and the states that they begin with. All are as long as those of the environment with most steps. Padding
/// repeats an environment's last step and is not learned from.
/// Copies are needed, since neighbouring sequences share the steps of their burn-in.
[[nodiscard]] learner::Batch ppo_sequences(const Fragment& fragment, const SequenceOptions& options);

/// The policy's output for the rows of a minibatch that are learned from. `rows`, but for its observation, becomes just
/// those, in the same order, so that means over them know nothing of padding and burn-in.
[[nodiscard]] PolicyOutput forward_learned(RecurrentActorCritic& policy, PpoRows& rows, const SequenceOptions& options);

}  // namespace tandem::rl
