// rl/policy/recurrent.h: what an algorithm needs of a policy that remembers, beyond policy.h.
//
// What a row remembers is its state: a list of numbers, empty (all zero) where an episode begins. Actors carry it from
// step to step; the learner starts sequences from the states that acting had there.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// T steps of S sequences, time-major: row t * S + s is step t of sequence s.
struct SequenceInput {
  Observation observation;  // per leaf [T * S, ...]
  at::Tensor state;         // [S, state_size()]: before the first step
  at::Tensor start;         // [T, S]: not zero where an episode begins with the step; undefined: nowhere
};
struct SequenceOutput {
  PolicyOutput output;  // of T * S rows
  at::Tensor state;     // [S, state_size()]: after the last step
};

/// A policy whose output depends on what its row saw before in the episode.
class RecurrentActorCritic : public ActorCritic {
 public:
  using ActorCritic::ActorCritic;

  /// Numbers of one row's state.
  [[nodiscard]] virtual std::int64_t state_size() const = 0;
  /// The same numbers for a sequence as for its steps one by one, to rounding; gradients flow back through all of it.
  virtual SequenceOutput forward_sequences(const SequenceInput& input) = 0;

  /// As in the first step of an episode.
  PolicyOutput forward(const Observation& observation) final;
};

/// forward_sequences() over pieces of `lengths` steps in turn, which add up to T. Gradients end where pieces meet.
[[nodiscard]] PolicyOutput forward_in_pieces(RecurrentActorCritic& policy, const SequenceInput& input,
                                             const std::vector<std::int64_t>& lengths);

}  // namespace tandem::rl
