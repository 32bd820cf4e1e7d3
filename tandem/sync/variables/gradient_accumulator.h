// sync/gradient_accumulator.h: gathers the gradients of a step until they are taken as one, dense and sparse ones
// alike.
//
// Has a step of its own: a gradient of an older one is not added, and taking the gradients moves it on, as TensorFlow's
// ConditionalAccumulator does. What is gathered are sums over shards with what was counted with them (Tally); what is
// taken are sums whose mean is `1 / weight` times them.
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

/// A replica's sums. Sparse ones need not be coalesced: a shard's rows are in ascending order, one shard after the
/// other.
struct Contribution {
  GradientId id;
  std::int64_t step = 0;  // that it is for
  double factor = 1;      // of the gradients
  Tally tally;
  const model::FlatParameters::Gradients& gradients;  // lent, and may be changed, until give_back()
};

class GradientAccumulator {
 public:
  virtual ~GradientAccumulator() = default;

  /// False, and nothing else, when it is for an older step.
  [[nodiscard]] bool add(const Contribution& contribution);
  [[nodiscard]] int count() const { return count_; }
  /// The memory of the worker's gradients is about to be written again: what was not taken of it is copied.
  virtual void give_back(int /*worker*/) {}

  struct Taken {
    model::FlatParameters::Gradients& gradients;  // valid until the next add() or take()
    Tally tally;
  };
  /// What was added since the last take(), at least one; the step moves on by one.
  [[nodiscard]] Taken take();

  [[nodiscard]] std::int64_t step() const { return step_; }
  /// What was added for older steps remains. Throws InvariantError when it is lower than now.
  void set_step(std::int64_t step);

 private:
  virtual void keep(const Contribution& contribution) = 0;
  virtual Taken finish() = 0;

  std::int64_t step_ = 0;
  int count_ = 0;
};

/// kWhole: gradients weigh as many rows as they are of; kept, and summed along the tree in order of worker and
/// sequence. kPerVariable: each gradient's own mean counts as one; a running sum a variable, divided by how many had
/// it. `parameters`: of the gradients' layout, on the CPU; outlives it.
[[nodiscard]] std::unique_ptr<GradientAccumulator> make_accumulator(Acceptance acceptance, SparseMean sparse_mean,
                                                                    const model::FlatParameters& parameters);

}  // namespace tandem::sync
