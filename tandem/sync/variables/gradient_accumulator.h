// sync/gradient_accumulator.h: gathers the gradients of a step until they are taken as one, dense and sparse ones
// alike.
//
// Which gradients belong to a step is decided before (TokenProtocol). Sums over shards are gathered, with what was
// counted with them (Tally); the result of take() is a sum whose mean is `1 / weight` times it.
//
// Threads: caller-locks.
#pragma once
#include <memory>

#include "tandem/model/flat_parameters.h"
#include "tandem/sync/mean/mean_of_sums.h"
#include "tandem/sync/strategy_options.h"
#include "tandem/sync/variables/token_protocol.h"

namespace tandem::sync {

/// A replica's sums. Sparse sums need not be coalesced: the rows of a shard are in ascending order, and the shards
/// follow each other.
struct Contribution {
  GradientId id;
  double factor = 1;  // of the gradients
  Tally tally;
  const model::FlatParameters::Gradients& gradients;  // lent, and may be changed, until give_back()
};

class GradientAccumulator {
 public:
  virtual ~GradientAccumulator() = default;

  virtual void add(const Contribution& contribution) = 0;
  /// To be called before the memory of the worker's gradients is written again: copies those that were not taken yet.
  virtual void give_back(int /*worker*/) {}

  struct Taken {
    model::FlatParameters::Gradients& gradients;  // valid until the next add() or take()
    Tally tally;
  };
  /// Takes the gradients that were added since the last take(), at least one, as one.
  [[nodiscard]] virtual Taken take() = 0;

 protected:
  GradientAccumulator(SparseMean sparse_mean, const model::FlatParameters& parameters)
      : sparse_mean_(sparse_mean), parameters_(parameters) {}

  const SparseMean sparse_mean_;
  const model::FlatParameters& parameters_;
};

/// kWhole: a gradient weighs as much as its rows; all are kept, and summed along the tree in order of worker and
/// sequence. kPerVariable: each gradient's own mean counts as one; there is one running sum a variable, divided by the
/// number of gradients that had it. `parameters` have the gradients' layout, lie on the CPU and outlive the
/// accumulator.
[[nodiscard]] std::unique_ptr<GradientAccumulator> make_accumulator(Acceptance acceptance, SparseMean sparse_mean,
                                                                    const model::FlatParameters& parameters);

}  // namespace tandem::sync
