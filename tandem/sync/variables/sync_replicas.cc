#include "tandem/sync/variables/sync_replicas.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/sync/mean/sparse_sum.h"

namespace tandem::sync {
namespace {

// The rules of strategy_options.h, and the one that only the group can answer: whether anybody is left after a death.
void require_in_range(const SyncReplicasOptions& options, const comm::Group& group) {
  require_none(faults_of(options, group.size()));
  if (options.on_death == OnDeath::kGoOn && !group.survival().why_none.empty()) {
    throw ConfigError(concat("sync_replicas: OnDeath::kGoOn has the others go on when a process dies, and ",
                             group.survival().why_none, "; or give OnDeath::kEnd"));
  }
}

}  // namespace

SyncReplicas::SyncReplicas(Replica& replica, comm::Group& group, const SyncReplicasOptions& options)
    : ServedStrategy(replica, group), options_(options), gradients_(replica) {
  require_in_range(options, group);
}

// --- the run's variables ---------------------------------------------------------------------------------------------

// Averages begin with the parameters as they are when the run begins, or a state is loaded, and not before.
void SyncReplicas::make_averages() {
  if (options_.average_decay && !averages_)
    averages_.emplace(replica_.parameters(), *options_.average_decay, options_.average_of);
}

void SyncReplicas::begin(const Limits& limits) {
  make_averages();
  ServedStrategy::begin(limits);
  const auto& say_they_go_on = group_.survival().say_they_go_on;
  if (options_.on_death == OnDeath::kGoOn && say_they_go_on) say_they_go_on();
}

void SyncReplicas::leave(const Limits& limits) {
  if (options_.on_death == OnDeath::kEnd)
    ServedStrategy::leave(limits);
  else
    depart(limits);
}

void SyncReplicas::load_whole_state(const model::NamedTensors& state) {
  make_averages();
  ServedStrategy::load_whole_state(state);
}

// Resting twice is resting once: what rests has no token to give back.
void SyncReplicas::rest(const Limits& limits) {
  if (!is_running() || stage_ == Stage::kResting) return;
  link().rest(limits);
  stage_ = Stage::kResting;
}

void SyncReplicas::resume(const Limits& limits) {
  prepare_step(limits);
  if (std::exchange(stage_, Stage::kWorking) == Stage::kResting) link().resume(limits);
}

// --- steps -----------------------------------------------------------------------------------------------------------

void SyncReplicas::open(int shard) {
  require_begun();
  gradients_.open(shard);
}

// Offers the sums over this replica's shards, clipped by its own norm if asked for, waits for a token, and reports what
// became of the offer. Weight, loss and norm are the replica's own unless its gradient is part of a step that was made.
StepReport SyncReplicas::step(double lr_factor, const Limits& limits) {
  prepare_step(limits);
  gradients_.require_complete();
  gradients_.offer_rate(lr_factor);
  const Tally tally = gradients_.tally();
  const MeanGradient mine = own_mean(tally);
  const Offer offer{.replica = group_.rank(),
                    .scale = clip_coefficient(options_.max_replica_grad_norm, mine.report.grad_norm),
                    .learning_rate = replica_.optimizer().learning_rate(),
                    .lr_factor = lr_factor,
                    .tally = tally};
  const Clock::time_point start = Clock::now();
  const Span span("sync");
  StepReport report = link().exchange(offer, &gradients_.sum(), limits);
  count_step();
  report.of_gradients = options_.replicas_to_aggregate.value_or(group_.size());
  if (report.verdict != Verdict::kApplied) {
    report.weight = mine.report.weight;
    report.loss = mine.report.loss;
    report.grad_norm = mine.report.grad_norm;
    report.untouched = mine.report.untouched;
  }
  report.wait_seconds = seconds_since(start);
  return report;
}

// The mean over this replica's own shards, for its report and its clipping; also finds a gradient that is not finite
// before it is added to any other. The sparse parts of the shards are put one behind the other here, and added up by
// the accumulator.
MeanGradient SyncReplicas::own_mean(const Tally& tally) {
  const at::NoGradGuard no_grad;
  const std::vector<model::FlatBuffer>& buffers = replica_.parameters().buffers();
  model::FlatParameters::Gradients added = gradients_.sum();
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    for (std::size_t slot = 0; buffers[b].sparse && slot < buffers[b].slots.size(); ++slot) {
      std::vector<at::Tensor> shards;
      for (const auto& shard : gradients_.sparse()) shards.push_back(shard[b][slot]);
      at::Tensor& joined = gradients_.sum().sparse[b][slot];
      joined = join_shards(shards, buffers[b].slots[slot].shape);
      added.sparse[b][slot] = joined.defined() ? joined.coalesce() : joined;
    }
  }
  if (!(tally.weight > 0)) return {};
  return mean_of({.gradients = added,
                  .parameters = replica_.parameters(),
                  .tally = tally,
                  .scale = scale_of(tally, options_.mean.divisor),
                  .of = concat("the shards of replica ", group_.rank(), ", before any other's was added,")},
                 {}, steps());
}

}  // namespace tandem::sync
