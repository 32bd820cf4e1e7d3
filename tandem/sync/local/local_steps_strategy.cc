#include "tandem/sync/local/local_steps_strategy.h"

#include <utility>

#include "tandem/comm/local_group.h"
#include "tandem/concurrency/trace.h"

namespace tandem::sync {

LocalStepsStrategy::LocalStepsStrategy(Replica& replica, comm::Group& group, const LocalStepsOptions& options)
    : replica_(replica),
      group_(group),
      alone_(std::move(comm::make_local_group(1).front())),
      mean_(replica, *alone_, options.mean),
      exchange_(replica, group, options) {}

void LocalStepsStrategy::begin(const Limits& limits) {
  exchange_.finish(limits);
  require_same_model(replica_, group_, limits);
  broadcast_state(replica_, group_, 0, limits);
  for (const auto& [name, tensor] : exchange_.besides()) group_.broadcast(tensor, 0, limits);
  exchange_.begin();
  steps_ = 0;
  weight_ = 0;
}

void LocalStepsStrategy::close(double weight, double loss) {
  mean_.close(weight, loss);
  weight_ += weight;
}

StepReport LocalStepsStrategy::step(double lr_factor, const Limits& limits) {
  const double weight = std::exchange(weight_, 0);
  StepReport report;
  if (weight > 0) {
    const MeanGradient mean = mean_.form(lr_factor, steps_, limits);
    const Span span("optimizer");
    replica_.optimizer().step(mean_.sums(), mean.scale, mean.lr_factor);
    report = mean.report;
  }
  report.step = ++steps_;
  const double waited = exchange_.totals().wait_seconds;
  exchange_.count_step(weight);
  exchange_.exchange_due(limits);
  report.wait_seconds = exchange_.totals().wait_seconds - waited;
  return report;
}

model::NamedTensors LocalStepsStrategy::named_state() {
  model::NamedTensors all = replica_.named_state();
  for (const auto& each : exchange_.besides()) all.push_back(each);
  return all;
}

model::NamedTensors LocalStepsStrategy::whole_state(const Limits& limits) {
  exchange_.settle(limits);
  require_same_state(replica_, group_, kNoStateOfDrifted, limits);
  return replica_.placement().local == 0 ? named_state() : model::NamedTensors{};
}

void LocalStepsStrategy::load_whole_state(const model::NamedTensors& state) {
  model::copy_named(state, named_state());
  if (replica_.has_optimizer()) replica_.optimizer().state_changed();
  exchange_.begin();
}

}  // namespace tandem::sync
