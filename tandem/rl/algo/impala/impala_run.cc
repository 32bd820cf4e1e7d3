#include "tandem/rl/algo/impala/impala_run.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"
#include "tandem/device/one_core.h"
#include "tandem/rl/algo/option_faults.h"

// The wiring of a run. start() builds a pipeline over numbers of slots, buffers and tellings; produce(), load_batch(),
// learn() and drop() are its stages' work on their own threads; update() takes results on the owner's thread;
// quiesce() lets the pipeline run dry and ends it. ImpalaSeats does what is asked, with the numbers that it is given.
namespace tandem::rl {
namespace {

constexpr std::chrono::minutes kDrainPatience{5};  // for what is on its way, when the workers are to rest
constexpr std::chrono::seconds kGrace{60};         // for threads to return once the run has failed, at most

std::size_t count_of(int number) { return static_cast<std::size_t>(number); }

// Counts that others are divided by come first; where they are right, all else is told at once.
void check_counts(const ImpalaSetup& setup, OptionFaults& faults) {
  const ImpalaOptions& impala = setup.impala;
  faults.at_least("shards", setup.shards, 1);
  faults.require(!setup.devices.empty(), "devices is empty; the learner needs at least one");
  faults.at_least("num_envs", impala.num_envs, 1);
  faults.at_least("rollout_steps", impala.rollout_steps, 1);
  faults.at_least("workers", impala.workers, 1);
  faults.at_least("splits", impala.splits, 1);
  faults.at_least("queue", impala.queue, 1);
  faults.at_least("buffers", impala.buffers, 1);
  faults.at_least("loaders", impala.loaders, 1);
  faults.at_least("passes", impala.passes, 1);
  faults.at_least("batches_per_update", impala.batches_per_update, 1);
}

void check_numbers(const ImpalaSetup& setup, OptionFaults& faults) {
  const ImpalaOptions& impala = setup.impala;
  faults.at_least("total_steps", setup.total_steps, 1);
  faults.at_least("sequence_length", impala.sequence_length.value_or(1), 1);
  faults.at_least("burn_in", impala.burn_in, 0);
  faults.require(impala.burn_in < impala.rollout_steps,
                 concat("burn_in is ", impala.burn_in, " of the ", impala.rollout_steps,
                        " steps of a rollout; it must leave steps to learn from"));
  faults.at_least("max_policy_lag", impala.max_policy_lag.value_or(0), 0);
  faults.positive("learning_rate", impala.learning_rate);
  faults.positive("adam_eps", impala.adam_eps);
  faults.positive("max_grad_norm", impala.max_grad_norm);
  faults.in_range("gamma", impala.gamma, 0, 1);
  faults.positive("rho_clip", impala.rho_clip);
  faults.positive("c_clip", impala.c_clip);
  faults.not_negative("entropy_coef", impala.entropy_coef);
  faults.not_negative("value_coef", impala.value_coef);
  faults.at_least("learner_queue_timeout", impala.learner_queue_timeout, 1);
  faults.at_least("stall_timeout", impala.stall_timeout, 1);
  if (!setup.appo) return;
  faults.at_least("target_update_steps", setup.appo->target_update_steps, 1);
  faults.positive("clip_range", setup.appo->clip_range);
  faults.not_negative("kl_coef", setup.appo->kl_coef);
}

ImpalaSetup checked(ImpalaSetup setup) {
  if (setup.impala.kernel == LossKernel::kOff) setup.actor.memory = ActingWithMemory::kByOperations;
  OptionFaults faults;
  check_counts(setup, faults);
  if (faults.any()) throw ConfigError(faults.take());
  const ImpalaOptions& impala = setup.impala;
  for (const CountFault& fault :
       count_faults(impala, setup.shards, static_cast<int>(setup.devices.size()) * setup.ranks.size()))
    faults.require(false, concat(fault.key, " = ", fault.value, ": ", fault.problem));
  check_numbers(setup, faults);
  if (setup.agents) {
    faults.require(impala.splits == 1,
                   concat("splits is ", impala.splits, "; environments with several agents step in one so far"));
    faults.require(!impala.sequence_length,
                   "policies of several agents remember nothing so far: leave sequence_length");
  }
  if (setup.ranks.size() > 1 && impala.max_policy_lag) {
    faults.require(impala.beyond_lag != pipeline::BeyondLag::kDrop,
                   concat("beyond_lag is drop, and the run has ", setup.ranks.size(),
                          " ranks, which make equally many learner steps; use wait, or one rank"));
  }
  if (faults.any()) throw ConfigError(faults.take());
  return setup;
}

std::optional<pipeline::LagBound> lag_bound(const ImpalaOptions& impala) {
  if (!impala.max_policy_lag) return std::nullopt;
  return pipeline::LagBound{.steps = *impala.max_policy_lag, .then = impala.beyond_lag};
}

// Slots for the batches that wait, that workers hold until there is room, and that loaders are copying.
std::size_t slots_for(const ImpalaOptions& impala) { return count_of(impala.queue + impala.workers + impala.loaders); }

// How long a replica waits for the others. Replicas of other ranks may be waiting for samples, or for a stage that
// hangs there: the rank that has the fault must be the one that reports it, so the others wait longer than its limits.
Clock::duration patience_of(const ImpalaSetup& setup) {
  const std::chrono::seconds stall(setup.impala.stall_timeout), starvation(setup.impala.learner_queue_timeout);
  if (setup.ranks.size() == 1) return std::max<Clock::duration>(kDrainPatience, stall);
  return std::max<Clock::duration>(kDrainPatience, 2 * std::max(stall, starvation) + kGrace);
}

}  // namespace

ImpalaRun::ImpalaRun(ImpalaSetup setup)
    : setup_(checked(std::move(setup))),
      slots_(slots_for(setup_.impala)),
      tellings_(count_of(setup_.impala.batches_per_update) + 2) {  // they wait; one is the learner's, one the owner's
  const ImpalaMemory memory{
      .slots = slots_.size(), .buffers = count_of(setup_.impala.buffers), .tellings = tellings_.size()};
  seats_ = std::make_unique<ImpalaSeats>(setup_, memory, patience_of(setup_));
}

std::string ImpalaRun::why_numbers_differ() const {
  if (setup_.impala.execution == ImpalaExecution::kInline) return "";
  return "the rollout workers and the learner run at the same time, in an order that no two runs have in common";
}

// Wraps `work` so that a failure ends the other ranks' waits, and this rank's learner's wait for them.
template <typename Work>
auto ImpalaRun::guarded(Work work) {
  return [this, work](auto&&... arguments) {
    try {
      return work(arguments...);
    } catch (const std::exception& error) {
      // GroupAborted follows from another failure, which is the one to tell.
      if (dynamic_cast<const GroupAborted*>(&error) == nullptr) has_failed_ = true;
      const learner::Ranks& ranks = setup_.ranks;
      if (ranks.size() > 1) ranks.abort(concat("rank ", ranks.rank(), " failed: ", error.what()));
      throw;
    }
  };
}

// Batches made since the run's start. When the pipeline starts, also in another process, the learner has had all of
// them.
std::int64_t ImpalaRun::batches_made() const { return env_steps_ / setup_.impala.batch_rows(); }

// Inline, workers make batches in turn; the first batch of a pipeline belongs to this one.
int ImpalaRun::next_worker() const { return static_cast<int>(batches_made() % setup_.impala.workers); }

// The first batches of the run get fewer passes; the first batches after a checkpoint do not.
int ImpalaRun::first_passes() const {
  return static_cast<int>(std::min<std::int64_t>(setup_.impala.passes, 1 + batches_made()));
}

// Starts the pipeline where the run is, at its begin, after save() or after load(). The workers' first batches must
// have the newest weights though their version may be that of the last batch: load() changes weights without a step.
void ImpalaRun::start() {
  const ImpalaOptions& impala = setup_.impala;
  learned_samples_ = env_steps_;
  claims_.emplace(impala.batch_rows(), env_steps_, setup_.total_steps);
  if (setup_.ranks.size() > 1) permits_.emplace();
  seats_->forget();
  seats_->publish(steps_);
  std::vector<std::size_t> buffers(count_of(impala.buffers));
  std::iota(buffers.begin(), buffers.end(), std::size_t{0});
  pipeline_ = std::make_unique<Pipeline>(
      pipeline::PipelineOptions{.execution = impala.execution,
                                .workers = impala.workers,
                                .first_worker = next_worker(),
                                .queue = count_of(impala.queue),
                                .loaders = impala.loaders,
                                .passes = impala.passes,
                                .first_passes = first_passes(),
                                .results = count_of(impala.batches_per_update),
                                .starvation = std::chrono::seconds(impala.learner_queue_timeout),
                                .stall = std::chrono::seconds(impala.stall_timeout),
                                .peers = setup_.ranks.size() > 1 ? patience_of(setup_) : Clock::duration::zero(),
                                .grace = std::min(kGrace, std::chrono::seconds(impala.stall_timeout)),
                                .lag_bound = lag_bound(impala),
                                .permits = permits_ ? &*permits_ : nullptr,
                                .claims = &*claims_},
      std::move(buffers),
      Pipeline::Work{
          .produce = guarded([this](int worker) { return produce(worker); }),
          .load = guarded([this](Queued& queued, std::size_t buffer) { load_batch(queued, buffer); }),
          .learn = guarded([this](std::size_t buffer, const pipeline::LearnStep& step) { return learn(buffer, step); }),
          .drop = [this](std::size_t buffer, const pipeline::LearnStep& step) { return drop(buffer, step); }},
      steps_, stats_);
}

// Ends the pipeline with all its batches learned from. The next update() starts another one.
void ImpalaRun::quiesce() {
  if (!pipeline_) return;
  if (setup_.ranks.size() > 1) {
    finish_together();
  } else {
    pipeline_->drain(Deadline::after(kDrainPatience), [this](Learned learned) { account(std::move(learned)); });
  }
  pipeline_.reset();
}

// A collective of the owner's while the threads go on. When the group was aborted because a thread of this rank has
// failed, next() throws that failure, which is the one to report.
template <typename Value>
std::vector<Value> ImpalaRun::gather_while_sampling(const Value& mine) {
  std::vector<double> numbers;
  learner::append_struct(mine, numbers);
  try {
    std::vector<Value> all;
    for (std::span<const double> its : setup_.ranks.gather(numbers)) all.push_back(learner::take_struct<Value>(its));
    return all;
  } catch (const GroupAborted&) {
    while (has_failed_ && next()) {
    }
    throw;
  }
}

// Ends the pipelines of several ranks together: all ranks make as many batches as the rank that has begun most, and
// learn from all of them. The learners rest when this is called. Claims are held while the ranks exchange them, so that
// no worker begins a batch that the others do not know of; they must be released whatever happens.
void ImpalaRun::finish_together() {
  const std::int64_t mine = claims_->hold();
  std::int64_t most = mine;
  try {
    most = std::ranges::max(gather_while_sampling(mine));
  } catch (...) {
    claims_->release(mine);
    throw;
  }
  claims_->release(most);
  take_the_rest();
}

// Environment steps of a batch in this rank's shards.
std::int64_t ImpalaRun::own_batch_rows() const {
  return setup_.impala.batch_rows() / setup_.shards * seats_->shards().size();
}

// On the worker's thread.
std::optional<pipeline::Tagged<ImpalaRun::Queued>> ImpalaRun::produce(int worker) {
  device::use_one_core();
  fault_point("impala.collect");
  std::optional<SlotPool::Lease> slot = slots_.try_acquire();
  TANDEM_CHECK(slot.has_value(), "no slot for a batch");
  const auto before = static_cast<double>(claims_->claimed() - setup_.impala.batch_rows());
  const std::int64_t version = seats_->collect(worker, before / static_cast<double>(setup_.total_steps), slot->index());
  return pipeline::Tagged<Queued>{.data = std::move(*slot), .tag = {.version = version, .samples = own_batch_rows()}};
}

// On the loader's thread.
void ImpalaRun::load_batch(Queued& queued, std::size_t buffer) {
  device::use_one_core();
  fault_point("impala.load");
  seats_->load_batch(queued.index(), buffer);
  queued.give_back();
}

// On the learner's thread; the replicas' threads do the work meanwhile. The order matters: targets are renewed after
// the step that they count, results are exchanged before the weights are published, so that the normalizers which are
// published with them have the moments of this batch.
ImpalaRun::Learned ImpalaRun::learn(std::size_t buffer, const pipeline::LearnStep& step) {
  device::use_one_core();
  const Clock::time_point begun = Clock::now();
  const double progress = static_cast<double>(learned_samples_) / static_cast<double>(setup_.total_steps);
  const Schedule& schedule = setup_.impala.learning_rate_schedule;
  const double lr_factor = schedule.factor(setup_.impala.learning_rate, progress);
  Learned learned;
  learned.sync_seconds = seats_->step(buffer, lr_factor);
  ++steps_;
  trained_ += step.tag.samples;
  if (setup_.appo && steps_ % setup_.appo->target_update_steps == 0) seats_->renew_targets();
  exchange(buffer, step, learned);
  seats_->publish(steps_);
  learned.learning_rate = schedule.at(setup_.impala.learning_rate, progress);
  learned.learn_seconds = seconds_since(begun) - learned.sync_seconds;
  return learned;
}

// A batch that was too old brings its samples, episodes and moments, and no step.
ImpalaRun::Learned ImpalaRun::drop(std::size_t buffer, const pipeline::LearnStep& step) {
  Learned nothing;
  nothing.dropped = true;
  exchange(buffer, step, nothing);
  return nothing;
}

// Each batch is told of once: a further pass over it brings no samples. Waits for other ranks count as synchronisation.
void ImpalaRun::exchange(std::size_t buffer, const pipeline::LearnStep& step, Learned& learned) {
  const Clock::time_point begun = Clock::now();
  learned.telling = tellings_.try_acquire();
  TANDEM_CHECK(learned.telling.has_value(), "no room to tell of a batch");
  learned.own_samples = step.first_pass ? step.tag.samples : 0;
  learned.new_samples = seats_->exchange(buffer, learned.own_samples, learned.dropped, learned.telling->index());
  learned_samples_ += learned.new_samples;
  if (setup_.ranks.size() > 1) learned.sync_seconds += seconds_since(begun);
}

// The next result of the learner. The pipeline looks for stalls while it waits here.
std::optional<ImpalaRun::Learned> ImpalaRun::next() {
  return guarded([this] { return pipeline_->next(); })();
}

// Counts all passes that are left; no new batches come any more. Learners need no more permits.
void ImpalaRun::take_the_rest() {
  if (permits_) permits_->open();
  while (std::optional<Learned> learned = next()) account(std::move(*learned));
}

// Takes batches_per_update results, or all that are left at the end of the run. Several ranks make exactly so many
// steps (permits_), so that their owners meet in report_rest() while all learners rest.
RunReport ImpalaRun::update() {
  if (!pipeline_) start();
  if (permits_) permits_->grant(setup_.impala.batches_per_update);
  // Batches that save() learned from before this call are reported in this update as well, but do not shorten it: a
  // resumed run must save at the same steps as one that was never interrupted.
  for (int steps = 0; steps < setup_.impala.batches_per_update;) {
    std::optional<Learned> learned = next();
    if (!learned) break;  // all steps are made
    steps += learned->dropped ? 0 : 1;
    account(std::move(*learned));
  }
  if (env_steps_ >= setup_.total_steps) take_the_rest();
  ++updates_;
  return report_rest();
}

// Counts one result of the learner. Batches that were too old have no step, but their samples and episodes count.
void ImpalaRun::account(Learned learned) {
  ++unreported_;
  env_steps_ += learned.new_samples;
  own_steps_ += learned.own_samples;
  seats_->account(learned.telling->index(), learned.dropped);
  if (learned.dropped) {
    dropped_ += learned.new_samples;
    return;
  }
  ++sums_.minibatches;
  sums_.learning_rate = learned.learning_rate;
  sums_.learn_seconds += learned.learn_seconds;
  sums_.sync_seconds += learned.sync_seconds;
}

// Makes the report of what account() has counted since the last one. Samples of the processes before this one are added
// after the ranks were combined, since every rank counts them.
RunReport ImpalaRun::report_rest() {
  unreported_ = 0;
  RunReport report{.learning = std::exchange(sums_, {}),
                   .sample_seconds = std::numeric_limits<double>::quiet_NaN()};  // it happens meanwhile
  LearnReport& learning = report.learning;
  const auto count = static_cast<double>(learning.minibatches);
  seats_->add_to(report);
  report.pipeline = stats_.report();
  learning.load_seconds = 1e-3 * report.pipeline->learner_load_time_ms * count;
  if (setup_.ranks.size() > 1) combine_ranks(report);
  own_steps_ = 0;
  report.pipeline->samples_sampled += sampled_before_;
  report.pipeline->samples_trained += trained_before_;
  report.pipeline->samples_dropped += dropped_before_;
  return report;
}

// Exchanges each rank's times and pipeline figures while the learners rest. Times are those of the slowest rank.
void ImpalaRun::combine_ranks(RunReport& report) {
  struct OfRank {
    double load_seconds, learn_seconds, sync_seconds;
    std::int64_t steps;
    pipeline::PipelineReport pipeline;
  };
  LearnReport& learning = report.learning;
  std::vector<pipeline::PipelineReport> pipelines;
  for (const OfRank& rank : gather_while_sampling(OfRank{.load_seconds = learning.load_seconds,
                            .learn_seconds = learning.learn_seconds,
                            .sync_seconds = learning.sync_seconds,
                            .steps = own_steps_,
                            .pipeline = *report.pipeline})) {
    pipelines.push_back(rank.pipeline);
    learning.load_seconds = std::max(learning.load_seconds, rank.load_seconds);
    learning.learn_seconds = std::max(learning.learn_seconds, rank.learn_seconds);
    learning.sync_seconds = std::max(learning.sync_seconds, rank.sync_seconds);
    report.ranks.push_back({.sample_seconds = rank.pipeline.learner_wait_seconds,
                            .learn_seconds = rank.learn_seconds,
                            .wait_seconds = rank.sync_seconds,
                            .env_steps = rank.steps});
  }
  report.pipeline = pipeline::combined(pipelines);
}

}  // namespace tandem::rl
