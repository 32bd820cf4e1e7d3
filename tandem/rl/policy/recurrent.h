// rl/policy/recurrent.h: what an algorithm needs of a policy that remembers, beyond policy.h.
//
// A row remembers its state: a list of numbers, all zero where an episode begins. Actors carry the state from step to
// step; the learner starts sequences from the states that acting had there. How rollouts become sequences:
// rl/rollout/sequences.h.
//
// Threads: as ActorCritic.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// T steps of S sequences, time-major: row t * S + s is step t of sequence s.
struct SequenceInput {
  /// By leaf [T * S, ...].
  Observation observation;
  /// [S, state_size()]: the states before the first step.
  at::Tensor state;
  /// [T, S]: not zero where an episode begins with the step, so that the state before it is forgotten; undefined:
  /// nowhere.
  at::Tensor start;
};
struct SequenceOutput {
  /// The output for all T * S rows.
  PolicyOutput output;
  /// [S, state_size()]: the states after the last step.
  at::Tensor state;
};

/// A policy whose output depends on what its row saw before in the episode.
class RecurrentActorCritic : public ActorCritic {
 public:
  using ActorCritic::ActorCritic;

  /// Numbers of one row's state.
  [[nodiscard]] virtual std::int64_t state_size() const = 0;
  /// Runs whole sequences. The numbers are those of running the steps one by one, to rounding; gradients flow back
  /// through all steps.
  virtual SequenceOutput forward_sequences(const SequenceInput& input) = 0;

  /// The output of rows that are in the first step of their episode.
  PolicyOutput forward(const Observation& observation) final;
};

/// Runs forward_sequences() over pieces of `lengths` steps in turn, which add up to T. Gradients end where pieces meet
/// (truncated backpropagation through time), which bounds the memory of the backward pass.
[[nodiscard]] PolicyOutput forward_in_pieces(RecurrentActorCritic& policy, const SequenceInput& input,
                                             const std::vector<std::int64_t>& lengths);

}  // namespace tandem::rl
