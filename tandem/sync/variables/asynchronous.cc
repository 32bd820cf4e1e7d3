#include "tandem/sync/variables/asynchronous.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/comm/local_group.h"
#include "tandem/concurrency/trace.h"
#include "tandem/sync/variables/shared_variables.h"

namespace tandem::sync {
Asynchronous::Asynchronous(Replica& replica, comm::Group& group, const AsynchronousOptions& options)
    : replica_(replica),
      group_(group),
      options_(options),
      alone_(std::move(comm::make_local_group(1).front())),
      mean_(replica, *alone_, options.mean),
      member_(replica, group, [options](Replica& like) { return std::make_shared<SharedVariables>(like, options); }) {
  require_none(faults_of(options));
}

void Asynchronous::begin(const Limits& limits) {
  member_.begin(limits);
  weight_ = 0;
}

void Asynchronous::leave(const Limits& limits) { member_.leave(limits); }

model::NamedTensors Asynchronous::whole_state(const Limits& limits) {
  member_.bring_together(limits);
  return replica_.placement().local == 0 ? replica_.named_state() : model::NamedTensors{};
}

void Asynchronous::load_whole_state(const model::NamedTensors& state) { member_.load(state); }

void Asynchronous::open(int shard) {
  member_.require_begun();
  mean_.open(shard);
}

void Asynchronous::close(double weight, double loss) {
  mean_.close(weight, loss);
  weight_ += weight;
}

StepReport Asynchronous::step(double lr_factor, const Limits& limits) {
  member_.prepare_step(limits);
  const double weight = std::exchange(weight_, 0);
  std::optional<MeanGradient> mean;
  if (weight > 0) mean = mean_.form(lr_factor, member_.steps(), limits);
  const double share = options_.scaling == Scaling::kByReplicas ? 1.0 / group_.size() : 1.0;
  const Offer offer{.replica = group_.rank(),
                    .scale = mean ? mean->scale * share : 0,
                    .learning_rate = replica_.optimizer().learning_rate(),
                    .lr_factor = lr_factor,
                    .tally = {.weight = weight}};
  const Clock::time_point start = Clock::now();
  const Span span("sync");
  const Outcome outcome = member_.link().exchange(offer, mean ? &mean_.sums() : nullptr, limits);
  member_.count_step();
  StepReport report = mean ? report_of(*mean, 0) : StepReport{};
  report.verdict = outcome.verdict;
  report.step = member_.steps();
  report.staleness = outcome.staleness;
  report.wait_seconds = seconds_since(start);
  return report;
}

void Asynchronous::abort(const std::string& why) { member_.abort(why); }

}  // namespace tandem::sync
