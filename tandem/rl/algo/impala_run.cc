#include "tandem/rl/algo/impala_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/device/one_core.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

constexpr std::chrono::minutes kDrainPatience{5};  // for what is on its way, when the workers are to rest
constexpr std::chrono::seconds kGrace{60};         // for threads to return once the run has failed, at most

std::size_t count_of(int number) { return static_cast<std::size_t>(number); }

ImpalaSetup checked(ImpalaSetup setup) {
  std::vector<std::string> faults;
  if (setup.shards < 1) faults.push_back(concat("shards is ", setup.shards, "; it must be at least 1"));
  if (setup.devices.empty()) faults.emplace_back("devices is empty; the learner needs at least one");
  if (!faults.empty()) throw ConfigError(std::move(faults));
  for (const ImpalaFault& fault : count_faults(setup.impala, setup.shards, static_cast<int>(setup.devices.size())))
    faults.push_back(concat(fault.key, " = ", fault.value, ": ", fault.problem));
  if (setup.total_steps < 1) faults.push_back(concat("total_steps is ", setup.total_steps, "; it must be at least 1"));
  const ImpalaOptions& impala = setup.impala;
  if (impala.sequence_length && *impala.sequence_length < 1)
    faults.push_back(concat("sequence_length is ", *impala.sequence_length, "; it must be at least 1"));
  if (impala.max_policy_lag && *impala.max_policy_lag < 0)
    faults.push_back(concat("max_policy_lag is ", *impala.max_policy_lag, "; it must be at least 0"));
  if (setup.appo) {
    const AppoOptions& appo = *setup.appo;
    if (appo.target_update_steps < 1)
      faults.push_back(concat("target_update_steps is ", appo.target_update_steps, "; it must be at least 1"));
    if (!(appo.clip_range > 0)) faults.push_back(concat("clip_range is ", appo.clip_range, "; it must be above 0"));
    if (!(appo.kl_coef >= 0)) faults.push_back(concat("kl_coef is ", appo.kl_coef, "; it must not be below 0"));
  }
  if (setup.ranks.size() > 1)
    faults.push_back(concat("IMPALA learns in one process so far, and this run has ", setup.ranks.size(), " ranks"));
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return setup;
}

std::optional<pipeline::LagBound> lag_bound(const ImpalaOptions& impala) {
  if (!impala.max_policy_lag) return std::nullopt;
  return pipeline::LagBound{.steps = *impala.max_policy_lag, .then = impala.beyond_lag};
}

// Those that wait, those that workers hold until there is room, and those that loaders are copying.
std::size_t slots_for(const ImpalaOptions& impala) { return count_of(impala.queue + impala.workers + impala.loaders); }

// Of one batch, so that it seldom grows: as many as there are when each lasts for 16 steps.
void expect_episodes(std::vector<Episode>& episodes, const ImpalaOptions& impala) {
  episodes.reserve(count_of(impala.num_envs / impala.workers) * count_of(1 + impala.rollout_steps / 16));
}

// Memory for what comes with a batch.
template <typename Batch>
void expect(Batch& batch, const NormalizerMoments& moments, const ImpalaOptions& impala) {
  expect_episodes(batch.episodes, impala);
  batch.moments = moments;
}

}  // namespace

ImpalaRun::ImpalaRun(ImpalaSetup setup)
    : setup_(checked(std::move(setup))),
      spec_(setup_.make_envs(1)->spec()),
      normalizers_(spec_, setup_.normalizer),
      slots_(slots_for(setup_.impala)),
      told_(count_of(setup_.impala.batches_per_update) + 2),  // they wait; one is the learner's, one the owner's
      told_slots_(told_.size()) {
  if (spec_.agents != 1) {
    throw ConfigError(concat(spec_.id, " has ", spec_.agents, " agents in an environment; IMPALA trains one"));
  }
  learner_ = std::make_unique<ImpalaLearner>(
      setup_, [this] { return build_policy(); },
      std::max<Clock::duration>(kDrainPatience, std::chrono::seconds(setup_.impala.stall_timeout)));
  behaviour_ = std::make_unique<pipeline::Published<Behaviour>>(setup_.impala.workers, [this] {
    return Behaviour{.weights = copies_of(learner_->weights()), .normalizers = normalizers_};
  });
  for (int worker = 0; worker < setup_.impala.workers; ++worker) build_sampler(worker);
  const Fragment& fragment = samplers_.front()->worker().fragment();
  const std::int64_t state_size = fragment.state.defined() ? fragment.state.size(2) : 0;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    trajectories_.emplace_back(spec_, fragment.steps, fragment.rows, state_size, c10::kCPU);
  for (int i = 0; i < setup_.impala.buffers; ++i)
    buffers_.emplace_back(spec_, fragment.steps, fragment.rows, state_size, learner_->shard_devices());
  const NormalizerMoments moments(spec_, setup_.normalizer);
  for (Trajectory& batch : trajectories_) expect(batch, moments, setup_.impala);
  for (ShardedTrajectory& batch : buffers_) expect(batch, moments, setup_.impala);
  for (std::vector<Episode>& episodes : told_) expect_episodes(episodes, setup_.impala);
}

ImpalaRun::~ImpalaRun() = default;

// The same parameters for each.
std::shared_ptr<ActorCritic> ImpalaRun::build_policy() const {
  at::Generator generator = at::detail::createCPUGenerator(derive_seed(setup_.seed, SeedPurpose::kParameters, 0));
  return setup_.make_policy(spec_, generator);
}

void ImpalaRun::build_sampler(int worker) {
  const int envs = setup_.impala.num_envs / setup_.impala.workers;
  std::shared_ptr<ActorCritic> policy = build_policy();
  policy->eval();
  const RolloutOptions options{.steps = setup_.impala.rollout_steps,
                               .gamma = setup_.impala.gamma,
                               .time_limit = setup_.impala.time_limit,
                               .family = policy->family(),
                               .sequences = {.length = setup_.impala.rollout_steps},
                               .normalizer = setup_.normalizer};
  std::unique_ptr<EnvGroup> group = setup_.make_envs(envs);
  std::unique_ptr<Actor> actor = make_actor(*policy, setup_.actor, group->size(), setup_.seed, worker);
  auto rollouts = std::make_unique<RolloutWorker>(std::move(group), std::move(actor), options, worker * envs);
  rollouts->reset(setup_.seed);
  samplers_.push_back(std::make_unique<Sampler>(std::move(policy), std::move(rollouts), normalizers_));
}

std::string ImpalaRun::why_numbers_differ() const {
  if (setup_.impala.execution == ImpalaExecution::kInline) return "";
  return "the rollout workers and the learner run at the same time, in an order that no two runs have in common";
}

void ImpalaRun::start() {
  claimed_ = learned_samples_ = env_steps_;
  for (const auto& sampler : samplers_) sampler->forget();
  publish();
  const ImpalaOptions& impala = setup_.impala;
  std::vector<ShardedTrajectory*> buffers;
  for (ShardedTrajectory& buffer : buffers_) buffers.push_back(&buffer);
  pipeline_ = std::make_unique<Pipeline>(
      pipeline::PipelineOptions{.execution = impala.execution == ImpalaExecution::kInline
                                                 ? pipeline::Execution::kInline
                                                 : pipeline::Execution::kThreads,
                                .workers = impala.workers,
                                .queue = count_of(impala.queue),
                                .loaders = impala.loaders,
                                .passes = impala.passes,
                                .first_passes = 1,
                                .results = count_of(impala.batches_per_update),
                                .starvation = std::chrono::seconds(impala.learner_queue_timeout),
                                .stall = std::chrono::seconds(impala.stall_timeout),
                                .grace = std::min(kGrace, std::chrono::seconds(impala.stall_timeout)),
                                .lag_bound = lag_bound(impala)},
      std::move(buffers),
      Pipeline::Work{
          .produce = [this](int worker) { return produce(worker); },
          .load = [this](Queued& queued, ShardedTrajectory* into) { load_batch(queued, *into); },
          .learn = [this](ShardedTrajectory* batch, const pipeline::LearnStep& step) { return learn(*batch, step); },
          .drop = [this](ShardedTrajectory* batch, const pipeline::LearnStep& step) { return drop(*batch, step); }},
      steps_, stats_);
}

void ImpalaRun::quiesce() {
  if (!pipeline_) return;
  pipeline_->drain(Deadline::after(kDrainPatience), [this](Learned learned) { account(std::move(learned)); });
  pipeline_.reset();
}

// On the worker's thread, as far as the environment steps of the run go.
std::optional<pipeline::Tagged<ImpalaRun::Queued>> ImpalaRun::produce(int worker) {
  const std::int64_t rows = setup_.impala.batch_rows();
  if (claimed_.fetch_add(rows) >= setup_.total_steps) return std::nullopt;
  fault_point("impala.collect");
  Sampler& sampler = *samplers_[count_of(worker)];
  const std::int64_t version = sampler.collect(*behaviour_);
  std::optional<SlotPool::Lease> slot = slots_.try_acquire();
  TANDEM_CHECK(slot.has_value(), "no slot for a batch");
  Trajectory& trajectory = trajectories_[slot->index()];
  trajectory.copy_from(sampler.worker().fragment());
  trajectory.episodes = sampler.worker().episodes().finished();
  sampler.worker().episodes().clear_finished();
  trajectory.moments = sampler.worker().moments();
  return pipeline::Tagged<Queued>{.data = {.slot = std::move(*slot)}, .tag = {.version = version, .samples = rows}};
}

// On the loader's thread.
void ImpalaRun::load_batch(Queued& queued, ShardedTrajectory& into) {
  device::use_one_core();
  fault_point("impala.load");
  into.copy_from(trajectories_[queued.slot.index()]);
  queued.slot.give_back();
}

// On the learner's thread, which lends the work to the replicas'.
ImpalaRun::Learned ImpalaRun::learn(ShardedTrajectory& batch, const pipeline::LearnStep& step) {
  device::use_one_core();
  const Clock::time_point begun = Clock::now();
  const double progress = static_cast<double>(learned_samples_) / static_cast<double>(setup_.total_steps);
  const double lr_factor = scheduled(1.0, setup_.impala.learning_rate_schedule, progress);
  const ImpalaLearner::Step made = learner_->step(batch, lr_factor);
  Learned learned;
  learned.numbers = made.numbers;
  learned.grad_norm = made.grad_norm;
  learned.sync_seconds = made.wait_seconds;
  ++steps_;
  if (setup_.appo && steps_ % setup_.appo->target_update_steps == 0) learner_->renew_targets();
  if (step.first_pass) take_new(batch, step, learned);
  publish();
  learned.learning_rate = setup_.impala.learning_rate * lr_factor;
  learned.learn_seconds = seconds_since(begun) - learned.sync_seconds;
  return learned;
}

ImpalaRun::Learned ImpalaRun::drop(ShardedTrajectory& batch, const pipeline::LearnStep& step) {
  Learned nothing;
  nothing.dropped = true;
  take_new(batch, step, nothing);
  return nothing;
}

// What a batch tells once.
void ImpalaRun::take_new(ShardedTrajectory& batch, const pipeline::LearnStep& step, Learned& learned) {
  learned.new_samples = step.tag.samples;
  learned.episodes = told_slots_.try_acquire();
  TANDEM_CHECK(learned.episodes.has_value(), "no room for episodes");
  told_[learned.episodes->index()] = batch.episodes;
  learned_samples_ += step.tag.samples;
  normalizers_.merge(batch.moments);
  normalizers_.finish_merge();
}

void ImpalaRun::publish() {
  behaviour_->publish(steps_, [this](Behaviour& copy) {
    copy_weights(learner_->weights(), copy.weights);
    copy.normalizers = normalizers_;
  });
}

RunReport ImpalaRun::update() {
  if (!pipeline_) start();
  // What save() learned from besides is reported, and not waited for less: else a resumed run would save at other
  // times.
  for (int steps = 0; steps < setup_.impala.batches_per_update;) {
    std::optional<Learned> learned = pipeline_->next();
    if (!learned) break;  // all steps are made
    steps += learned->dropped ? 0 : 1;
    account(std::move(*learned));
  }
  return finish_update();
}

void ImpalaRun::account(Learned learned) {
  ++unreported_;
  env_steps_ += learned.new_samples;
  if (learned.episodes) episodes_.add(told_[learned.episodes->index()]);
  if (learned.dropped) {
    dropped_ += learned.new_samples;
    return;
  }
  ++sums_.minibatches;
  sums_.policy_loss += learned.numbers.policy_loss;
  sums_.value_loss += learned.numbers.value_loss;
  sums_.entropy += learned.numbers.entropy;
  sums_.approx_kl += learned.numbers.approx_kl;
  sums_.clip_fraction += learned.numbers.cut;
  sums_.explained_variance += learned.numbers.explained_variance;
  sums_.grad_norm += learned.grad_norm;
  sums_.learning_rate = learned.learning_rate;
  sums_.learn_seconds += learned.learn_seconds;
  sums_.sync_seconds += learned.sync_seconds;
}

RunReport ImpalaRun::finish_update() {
  ++updates_;
  unreported_ = 0;
  RunReport report{.learning = std::exchange(sums_, {}),
                   .sample_seconds = std::numeric_limits<double>::quiet_NaN()};  // it happens meanwhile
  LearnReport& learning = report.learning;
  const auto count = static_cast<double>(learning.minibatches);  // of none the means are not a number
  for (double* mean : {&learning.policy_loss, &learning.value_loss, &learning.entropy, &learning.approx_kl,
                       &learning.clip_fraction, &learning.explained_variance, &learning.grad_norm}) {
    *mean /= count;
  }
  report.pipeline = stats_.report();
  report.pipeline->samples_sampled += sampled_before_;
  report.pipeline->samples_trained += trained_before_;
  report.pipeline->samples_dropped += dropped_before_;
  learning.load_seconds = 1e-3 * report.pipeline->load_ms * count;
  report_episodes(episodes_, report);
  return report;
}

std::string ImpalaRun::params_sha256() {
  quiesce();
  return params_sha256_of(learner_->policy());
}

std::string ImpalaRun::state_sha256() {
  quiesce();
  model::NamedTensors target;
  for (const auto& [name, tensor] : learner_->target()) target.emplace_back(concat("target.", name), tensor);
  return state_sha256_of(learner_->team(), normalizers_, target);
}

std::vector<learner::ReplicaTeam::Work> ImpalaRun::work() const {
  TANDEM_CHECK(!pipeline_, "the learner is at work");
  return learner_->team().work();
}

ImpalaRun::Places ImpalaRun::queue_slots() const {
  Places places{.all = slots_.size(), .idle = slots_.idle()};
  if (pipeline_) places.waiting = pipeline_->queue().size();
  if (pipeline_) places.held = pipeline_->held_by_workers();
  return places;
}

ImpalaRun::Places ImpalaRun::buffers() const {
  if (!pipeline_) return {.all = buffers_.size(), .idle = buffers_.size()};
  return {.all = buffers_.size(),
          .idle = pipeline_->buffers().idle(),
          .waiting = pipeline_->buffers().ready(),
          .held = pipeline_->held_by_learner()};
}

learner::StateParts ImpalaRun::save() {
  quiesce();
  learner::StateParts parts = learner_->save();
  parts.emplace_back("normalizers", normalizers_.state());
  parts.emplace_back(
      "run", run_part_of({updates_, env_steps_, static_cast<std::int64_t>(learner_->passes()), episodes_.total(),
                          steps_, trained_before_ + learner_->rows_trained(), dropped_},
                         episodes_));
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    RolloutWorker& rollouts = samplers_[count_of(worker)]->worker();
    parts.emplace_back(group_part(worker), model::NamedTensors{{"state", tensor_of(rollouts.save())}});
  }
  return parts;
}

RolloutWorker::Resumed ImpalaRun::load(const learner::ReadPart& read_part) {
  quiesce();
  const model::NamedTensors run = read_part("run");
  const std::vector<std::int64_t> counters = counters_of(run, 7);
  updates_ = counters[0];
  env_steps_ = sampled_before_ = counters[1];
  learner_->team().set_passes(static_cast<std::uint64_t>(counters[2]));
  restore_episodes(run, counters[3], episodes_);
  steps_ = counters[4];
  trained_before_ = counters[5];
  dropped_ = dropped_before_ = counters[6];
  learner_->load(read_part);
  normalizers_.load(read_part("normalizers"));
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    const model::NamedTensors group = read_part(group_part(worker));
    const at::Tensor bytes = find(group, "state", group_part(worker)).contiguous();
    const auto its = samplers_[count_of(worker)]->worker().load(bytes_of(bytes), seed);
    if (its != RolloutWorker::Resumed::kExactly) resumed = its;
  }
  return resumed;
}

}  // namespace tandem::rl
