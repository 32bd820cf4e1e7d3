// rl/algo/ppo/ppo_rows.h: a fragment as the learner's columns, or as sequences for a policy that remembers, and back as
// the tensors of one minibatch.
//
// Threads: any. Ownership: rows and batches hold views, which keep the fragment's memory alive but show what is later
// written to it; sequences are copies.
#pragma once
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/fragment.h"
#include "tandem/rl/rollout/sequences.h"

namespace tandem::rl {

/// Writes the rows of a fragment, T * N, time-major, into a batch that may be used again, so that nothing is allocated:
/// views, nothing is copied. Columns come in a fixed order: action, log_prob, value, advantage, value_target, then the
/// mask and the observation's leaves.
void take_columns(const Fragment& fragment, learner::Batch& batch);

/// The sequences of a fragment, environment by environment: the columns of take_columns(), copied, with "done" and
/// "learned", and the states that they begin with. All are as long as those of the environment with most steps. Padding
/// repeats an environment's last step and is not learned from.
/// Copies are needed, since neighbouring sequences share the steps of their burn-in.
[[nodiscard]] learner::Batch ppo_sequences(const Fragment& fragment, const SequenceOptions& options);
inline constexpr const char *kDoneColumn = "done", *kLearnedColumn = "learned";

/// The columns of a minibatch, or of a whole shard, by their meaning. All have as many rows; with sequences these lie
/// one sequence behind the other, padding included.
/// log_prob, value, advantage and value_target are [rows], under the policy that sampled.
struct PpoRows : ActedRows {
  at::Tensor value, advantage, value_target;
  // Defined for sequences only: whether an episode ended with the step, and whether the step is learned from.
  at::Tensor done, learned;
  // [sequences, state size]: the state before the first step of each; undefined without sequences.
  at::Tensor state;
};
/// Finds the columns by their order and names, and writes them into an object that may be used again. Throws
/// InvariantError when there are too few.
void take_rows(const learner::Columns& columns, const learner::Columns& states, PpoRows& rows);

/// The policy's output for the rows of a minibatch that are learned from. `rows`, but for its observation, becomes just
/// those, in the same order, so that means over them know nothing of padding and burn-in.
[[nodiscard]] PolicyOutput forward_learned(RecurrentActorCritic& policy, PpoRows& rows, const SequenceOptions& options);

}  // namespace tandem::rl
