#include "tandem/sync/variables/asynchronous.h"

#include <optional>
#include <utility>

#include "tandem/comm/local_group.h"
#include "tandem/concurrency/trace.h"
#include "tandem/sync/variables/shared_variables.h"

namespace tandem::sync {
Asynchronous::Asynchronous(Replica& replica, comm::Group& group, const AsynchronousOptions& options)
    : ServedStrategy(replica, group),
      options_(options),
      alone_(std::move(comm::make_local_group(1).front())),
      mean_(replica, *alone_, options.mean) {
  require_none(faults_of(options));
}

std::shared_ptr<VariableService> Asynchronous::make_variables() {
  return std::make_shared<SharedVariables>(replica_, options_);
}

void Asynchronous::begin(const Limits& limits) {
  ServedStrategy::begin(limits);
  weight_ = 0;
}

void Asynchronous::open(int shard) {
  require_begun();
  mean_.open(shard);
}

void Asynchronous::close(double weight, double loss) {
  mean_.close(weight, loss);
  weight_ += weight;
}

// Forms this replica's own mean, offers it, and reads the values. A step without rows offers nothing, and waits as any
// other where a bound asks for it. The division by the number of replicas is part of the scale, so it costs nothing.
StepReport Asynchronous::step(double lr_factor, const Limits& limits) {
  prepare_step(limits);
  const double weight = std::exchange(weight_, 0);
  std::optional<MeanGradient> mean;
  if (weight > 0) mean = mean_.form(lr_factor, steps(), limits);
  const double share = options_.scaling == Scaling::kByReplicas ? 1.0 / group_.size() : 1.0;
  const Offer offer{.replica = group_.rank(),
                    .scale = mean ? mean->scale * share : 0,
                    .learning_rate = replica_.optimizer().learning_rate(),
                    .lr_factor = lr_factor,
                    .tally = {.weight = weight}};
  const Clock::time_point start = Clock::now();
  const Span span("sync");
  const Outcome outcome = link().exchange(offer, mean ? &mean_.sums() : nullptr, limits);
  count_step();
  StepReport report = mean ? report_of(*mean, 0) : StepReport{};
  report.verdict = outcome.verdict;
  report.step = steps();
  report.staleness = outcome.staleness;
  report.wait_seconds = seconds_since(start);
  return report;
}

}  // namespace tandem::sync
