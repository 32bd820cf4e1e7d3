// rl/algo/off_policy/transitions.h: rows that were drawn from a replay, as the columns that a learner takes and as the
// tensors that a loss asks for.
//
// A row is a transition of n steps: what was seen, the action that was taken then, the discounted sum of the n rewards,
// what is seen behind them, and the discount of what can be earned from there on: gamma^n, and 0 where the task ended.
//
// Threads: single-thread, the replica's. Memory is taken when a Transitions is made, and filled again and again.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tandem/learner/batch.h"
#include "tandem/rl/env/spec.h"
#include "tandem/rl/policy/observation.h"

namespace tandem::rl {

/// The tensors of some rows. Observations are as policies see them.
struct TransitionRows {
  Observation observation, next_observation;
  // [B, size] in units of the bounds, or [B] of choices.
  at::Tensor action;
  // [B] each. `weight` is the importance of a row that was drawn more often than others; 1 for rows drawn evenly.
  at::Tensor reward, discount, weight;
  // [B, mask elements]: of observation and of next_observation; undefined without masks.
  at::Tensor action_mask, next_action_mask;
  // [B, size] each: standard normal numbers, as many as the algorithm asks for.
  std::vector<at::Tensor> noise;
};

/// Memory for so many rows of an environment, with `noises` tensors of noise.
[[nodiscard]] TransitionRows make_transitions(const Spec& spec, std::int64_t rows, int noises);

/// Gives the rows the names that a learner knows them by; tensors are shared.
void take_columns(const TransitionRows& rows, learner::Batch& batch);
/// Reads columns of take_columns().
[[nodiscard]] TransitionRows transitions_of(const learner::Columns& columns);

}  // namespace tandem::rl
