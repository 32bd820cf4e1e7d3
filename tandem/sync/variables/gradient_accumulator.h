// sync/gradient_accumulator.h: gathers the gradients of a step until they are taken as one, dense and sparse ones
// alike.
//
// The accumulator has a step of its own: a gradient of an older step is not added, and taking the gradients moves the
// step on, as in TensorFlow's ConditionalAccumulator. Sums over shards are gathered, with what was counted with them
// (Tally); the result of take() is a sum whose mean is `1 / weight` times it.
//
// Threads: caller-locks. Errors: InvariantError when the step is set back.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/model/flat_parameters.h"
#include "tandem/sync/mean/shard_gradients.h"
#include "tandem/sync/strategy_options.h"
#include "tandem/sync/variables/token_protocol.h"

namespace tandem::sync {

/// A replica's sums. Sparse sums need not be coalesced: the rows of a shard are in ascending order, and the shards
/// follow each other.
struct Contribution {
  GradientId id;
  std::int64_t step = 0;  // for which the gradient was made
  double factor = 1;      // of the gradients
  Tally tally;
  const model::FlatParameters::Gradients& gradients;  // lent, and may be changed, until give_back()
};

class GradientAccumulator {
 public:
  virtual ~GradientAccumulator() = default;

  /// Adds the gradient. Returns false, and changes nothing, when it is for an older step.
  [[nodiscard]] bool add(const Contribution& contribution);
  [[nodiscard]] int count() const { return count_; }
  /// To be called before the memory of the worker's gradients is written again: copies those that were not taken yet.
  virtual void give_back(int /*worker*/) {}

  struct Taken {
    model::FlatParameters::Gradients& gradients;  // valid until the next add() or take()
    Tally tally;
  };
  /// Takes the gradients that were added since the last take(), at least one, as one; the step moves on by one.
  [[nodiscard]] Taken take();

  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Sets the step; gradients that were added for older steps remain. Throws InvariantError when it is set back.
  void set_step(std::int64_t step);

 private:
  virtual void keep(const Contribution& contribution) = 0;
  virtual Taken finish() = 0;

  std::int64_t step_ = 0;
  int count_ = 0;
};

/// kWhole: a gradient weighs as much as its rows; all are kept, and summed along the tree in order of worker and
/// sequence. kPerVariable: each gradient's own mean counts as one; there is one running sum a variable, divided by the
/// number of gradients that had it. `parameters` have the gradients' layout, lie on the CPU and outlive the
/// accumulator.
[[nodiscard]] std::unique_ptr<GradientAccumulator> make_accumulator(Acceptance acceptance, SparseMean sparse_mean,
                                                                    const model::FlatParameters& parameters);

}  // namespace tandem::sync
