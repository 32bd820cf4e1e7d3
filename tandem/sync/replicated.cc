#include "tandem/sync/replicated.h"

#include "tandem/sync/replica_state.h"

namespace tandem::sync {

void Replicated::begin(const Limits& limits) {
  require_same_model(replica_, group_, limits);
  broadcast_state(replica_, group_, 0, limits);
  steps_ = 0;
}

StepReport Replicated::step(double lr_factor, const Limits& limits) {
  const MeanGradient mean = mean_.form(lr_factor, steps_, limits);
  replica_.optimizer().step(mean_.sums(), mean.scale, mean.lr_factor);
  return report_of(mean, ++steps_);
}

void Replicated::leave(const Limits& limits) {
  while (const std::optional<MeanGradient> mean = mean_.form_without_mine(steps_, limits)) {
    replica_.optimizer().step(mean_.sums(), mean->scale, mean->lr_factor);
    ++steps_;
  }
}

}  // namespace tandem::sync
