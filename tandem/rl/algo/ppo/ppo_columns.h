// rl/algo/ppo_columns.h: a fragment as the learner's columns, and back as the tensors of one minibatch.
#pragma once
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/policy/observation.h"
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

/// The rows of a fragment, T * N, time-major: views, nothing is copied.
[[nodiscard]] learner::Batch ppo_columns(const Fragment& fragment);
/// The same into one that is used again.
void take_columns(const Fragment& fragment, learner::Batch& batch);

/// Of sequences; see ppo_sequences.h.
inline constexpr const char *kDoneColumn = "done", *kLearnedColumn = "learned";

/// The columns of a minibatch, or of a whole shard, by their meaning.
struct PpoRows {
  Observation observation;
  at::Tensor action_mask;  // undefined without masks
  at::Tensor action, log_prob, value, advantage, value_target;
  at::Tensor done, learned;  // of sequences; else undefined
  at::Tensor state;          // [sequences, state size]; likewise
};
[[nodiscard]] PpoRows ppo_rows(const learner::Columns& columns, const learner::Columns& states);
/// The same into one that is used again.
void take_rows(const learner::Columns& columns, const learner::Columns& states, PpoRows& rows);

}  // namespace tandem::rl
