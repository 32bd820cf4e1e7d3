#include "tandem/sync/replicated.h"

#include "tandem/concurrency/trace.h"
#include "tandem/model/files/named_copy.h"
#include "tandem/sync/replica_state.h"

namespace tandem::sync {

void Replicated::begin(const Limits& limits) {
  require_same_model(replica_, group_, limits);
  broadcast_state(replica_, group_, 0, limits);
  steps_ = 0;
}

StepReport Replicated::step(double lr_factor, const Limits& limits) {
  const MeanGradient mean = mean_.form(lr_factor, steps_, limits);
  const Span span("optimizer");
  replica_.optimizer().step(mean_.sums(), mean.scale, mean.lr_factor);
  return report_of(mean, ++steps_);
}

void Replicated::leave(const Limits& limits) {
  while (const std::optional<MeanGradient> mean = mean_.form_without_mine(steps_, limits)) {
    replica_.optimizer().step(mean_.sums(), mean->scale, mean->lr_factor);
    ++steps_;
  }
}

model::NamedTensors Replicated::whole_state(const Limits& limits) {
  require_same_state(replica_, group_, kNoStateOfDrifted, limits);
  return replica_.placement().local == 0 ? replica_.named_state() : model::NamedTensors{};
}

void Replicated::load_whole_state(const model::NamedTensors& state) {
  model::copy_named(state, replica_.named_state());
  if (replica_.has_optimizer()) replica_.optimizer().state_changed();
}

}  // namespace tandem::sync
