// sync/early_update.h: a step that updates the parameters of each piece of a bucket of gradients as soon as its sum
// over the ranks is in place, while later ones are still on the wire.
//
// The mean is known as soon as the sum is, because its divisor was summed first (see offer()). Parameters that this
// rank's loss reached are present for sure, so a bucket of only such parameters is updated piece by piece; all others
// are updated when the presence flags have come. The bits are those of one update at the end, and the same on all
// ranks, whichever parts a rank updates early. A step in which ranks have left is updated at the end, because these
// ranks take the factor of the learning rate from sums that come last.
//
// When a step fails, the parameters, the optimizer's moments and step counts are those before the step: values that
// early updates overwrite are kept until all sums were found finite (Optimizer::begin_parts(), with its cost in
// memory).
//
// Only for gradients that are summed in buckets, divided by their total weight and not clipped. A rank whose parameters
// are not in CPU memory takes part in the same collectives, and updates at the end.
//
// Threads: single-thread, the replica's. Blocking: step() and wait_for_totals() wait for all ranks until `limits`.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/replica.h"

namespace tandem::sync {

class EarlyUpdate {
 public:
  /// Neither is owned; `replica` has an optimizer.
  EarlyUpdate(Replica& replica, comm::Group& group);

  /// Before the first of the step's gradients travels, on all ranks: the rows of all its passes on this rank. Their sum
  /// is the first of a step, so it is there when the first gradients are. It has the bits of the weight that is summed
  /// with the gradients (Tally). `left`: ranks that have left, this one.
  void offer(double weight, double left = 0);

  /// After the last pass: forms the mean gradient and updates all parameters with it. Fails as GradientMean::form().
  [[nodiscard]] MeanGradient step(GradientMean& gradients, double lr_factor, std::int64_t step, const Limits& limits);
  /// In place of step(), in a step in which this rank updates nothing by itself: waits for the sum of offer(). To be
  /// called when all of the step's sums are started, since others wait for what is not, and before any other sum is
  /// waited for.
  void wait_for_totals(const Limits& limits);

 private:
  void begin(double lr_factor, const Limits& limits);
  void summed(const model::FlatParameters::Gradients& sums, const BucketExchange::Piece& piece);

  Replica& replica_;
  comm::Group& group_;
  const at::Tensor totals_;               // float64 [2]: rows that all ranks have in a step, and ranks that have left
  std::optional<comm::Pending> pending_;  // the sum of `totals_`, from its start to its wait
  std::vector<at::Tensor> present_;       // by buffer: float32, whether each slot is present on this rank
  std::optional<double> scale_;           // from the sums to the mean; none where the update comes at the end
};

}  // namespace tandem::sync
