#include "tandem/rl/algo/impala_run.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/device/one_core.h"

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
  for (const ImpalaFault& fault :
       count_faults(setup.impala, setup.shards, static_cast<int>(setup.devices.size()) * setup.ranks.size()))
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
  if (setup.ranks.size() > 1 && impala.max_policy_lag && impala.beyond_lag == pipeline::BeyondLag::kDrop)
    faults.push_back(concat("beyond_lag is drop, and the run has ", setup.ranks.size(),
                            " ranks, which make equally many learner steps; use wait, or one rank"));
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

// How the splits of a worker step.
Stepping stepping_of(const ImpalaOptions& impala) {
  return impala.execution == ImpalaExecution::kInline ? Stepping::kInTurn : Stepping::kOwnThreads;
}

// Workers, the threads of their splits and the learner wait for each other.
SpinBudget spin_of(const ImpalaOptions& impala) { return spin_budget_for(impala.workers * (1 + impala.splits) + 1); }

// How long a replica waits for the others. Those of other ranks may wait for samples, or for one that hangs there.
Clock::duration patience_of(const ImpalaSetup& setup) {
  const std::chrono::seconds stall(setup.impala.stall_timeout), starvation(setup.impala.learner_queue_timeout);
  if (setup.ranks.size() == 1) return std::max<Clock::duration>(kDrainPatience, stall);
  return std::max<Clock::duration>(kDrainPatience, 2 * std::max(stall, starvation) + kGrace);
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
      setup_, [this] { return build_policy(); }, patience_of(setup_));
  news_ = std::make_unique<StepNews>(setup_.ranks, spec_, setup_.normalizer);
  behaviour_ = std::make_unique<pipeline::Published<Behaviour>>(setup_.impala.workers, [this] {
    return Behaviour{.weights = copies_of(learner_->weights()), .normalizers = normalizers_};
  });
  for (int worker = 0; worker < setup_.impala.workers; ++worker) build_sampler(worker);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    QueuedBatch& slot = queued_.emplace_back();
    for (const auto& group : samplers_.front()->rollout().groups()) slot.parts.push_back(group->make_fragment());
    slot.results.reserve(expected_results());
  }
  const Fragment& part = queued_.front().parts.front();
  const std::int64_t state_size = part.state.defined() ? part.state.size(2) : 0;
  for (int i = 0; i < setup_.impala.buffers; ++i) {
    buffers_.emplace_back(spec_, part.steps, part.rows * setup_.impala.splits, state_size, learner_->shard_devices());
  }
  for (ShardedTrajectory& batch : buffers_) batch.results.reserve(expected_results());
  for (std::vector<Episode>& episodes : told_) expect_episodes(episodes, setup_.impala);
}

ImpalaRun::~ImpalaRun() = default;

// The same parameters for each.
std::shared_ptr<ActorCritic> ImpalaRun::build_policy() const {
  at::Generator generator = at::detail::createCPUGenerator(derive_seed(setup_.seed, SeedPurpose::kParameters, 0));
  return setup_.make_policy(spec_, generator);
}

void ImpalaRun::build_sampler(int worker) {
  const int envs = setup_.impala.num_envs / setup_.impala.workers / setup_.shards / setup_.impala.splits;
  std::shared_ptr<ActorCritic> policy = build_policy();
  policy->eval();
  const RolloutOptions options{.steps = setup_.impala.rollout_steps,
                               .gamma = setup_.impala.gamma,
                               .time_limit = setup_.impala.time_limit,
                               .family = policy->family(),
                               .sequences = {.length = setup_.impala.rollout_steps},
                               .normalizer = setup_.normalizer};
  std::vector<std::unique_ptr<RolloutWorker>> groups;
  const Range numbers = group_numbers(worker);
  for (int number = numbers.begin; number < numbers.end; ++number) {
    std::unique_ptr<EnvGroup> envs_of_group = setup_.make_envs(envs);
    std::unique_ptr<Actor> actor = make_actor(*policy, setup_.actor, envs, setup_.seed, number);
    groups.push_back(
        std::make_unique<RolloutWorker>(std::move(envs_of_group), std::move(actor), options, number * envs));
    groups.back()->reset(setup_.seed);
  }
  auto rollout =
      std::make_unique<AlternatingRollout>(std::move(groups), setup_.impala.splits, stepping_of(setup_.impala),
                                           concat("envs ", worker), spin_of(setup_.impala));
  samplers_.push_back(std::make_unique<Sampler>(std::move(policy), std::move(rollout), normalizers_));
}

// Numbers that the env groups of this rank bring with a batch.
std::size_t ImpalaRun::expected_results() const {
  const NormalizerMoments moments(spec_, setup_.normalizer);
  std::size_t of_a_group = 2 + 2 * moments.discounted_return.size();
  for (const RunningMoments& leaf : moments.observation) of_a_group += 1 + 2 * leaf.size();
  std::vector<Episode> episodes;
  expect_episodes(episodes, setup_.impala);
  return count_of(group_numbers(0).size()) * of_a_group + 4 * episodes.capacity();
}

std::string ImpalaRun::why_numbers_differ() const {
  if (setup_.impala.execution == ImpalaExecution::kInline) return "";
  return "the rollout workers and the learner run at the same time, in an order that no two runs have in common";
}

// A failure ends the other ranks' waits, and that of this rank's learner for them.
template <typename Work>
auto ImpalaRun::guarded(Work work) {
  return [this, work](auto&&... arguments) {
    try {
      return work(arguments...);
    } catch (const std::exception& error) {
      if (dynamic_cast<const GroupAborted*>(&error) == nullptr) has_failed_ = true;
      const learner::Ranks& ranks = setup_.ranks;
      if (ranks.size() > 1) ranks.abort(concat("rank ", ranks.rank(), " failed: ", error.what()));
      throw;
    }
  };
}

// All batches that were made have come to the learner before the pipeline starts again, also in another process.
std::int64_t ImpalaRun::batches_made() const { return env_steps_ / setup_.impala.batch_rows(); }

// Inline, workers make batches in turn.
int ImpalaRun::next_worker() const { return static_cast<int>(batches_made() % setup_.impala.workers); }

// The first batches of the run get fewer, not those after each checkpoint.
int ImpalaRun::first_passes() const {
  return static_cast<int>(std::min<std::int64_t>(setup_.impala.passes, 1 + batches_made()));
}

void ImpalaRun::start() {
  const ImpalaOptions& impala = setup_.impala;
  learned_samples_ = env_steps_;
  claims_.emplace(impala.batch_rows(), env_steps_, setup_.total_steps);
  if (setup_.ranks.size() > 1) permits_.emplace();
  for (const auto& sampler : samplers_) sampler->forget();
  publish();
  std::vector<ShardedTrajectory*> buffers;
  for (ShardedTrajectory& buffer : buffers_) buffers.push_back(&buffer);
  pipeline_ = std::make_unique<Pipeline>(
      pipeline::PipelineOptions{.execution = impala.execution == ImpalaExecution::kInline
                                                 ? pipeline::Execution::kInline
                                                 : pipeline::Execution::kThreads,
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
          .load = guarded([this](Queued& queued, ShardedTrajectory* into) { load_batch(queued, *into); }),
          .learn = guarded(
              [this](ShardedTrajectory* batch, const pipeline::LearnStep& step) { return learn(*batch, step); }),
          .drop = [this](ShardedTrajectory* batch, const pipeline::LearnStep& step) { return drop(*batch, step); }},
      steps_, stats_);
}

void ImpalaRun::quiesce() {
  if (!pipeline_) return;
  if (setup_.ranks.size() > 1) {
    finish_together();
  } else {
    pipeline_->drain(Deadline::after(kDrainPatience), [this](Learned learned) { account(std::move(learned)); });
  }
  pipeline_.reset();
}

// All ranks make as many batches as that which has begun most, and learn from all of them. Their learners rest by now.
void ImpalaRun::finish_together() {
  const std::int64_t mine = claims_->hold();
  std::int64_t most = mine;
  try {
    for (const std::vector<double>& rank : gather_while_sampling({static_cast<double>(mine)}))
      most = std::max(most, static_cast<std::int64_t>(rank.front()));
  } catch (...) {
    claims_->release(mine);
    throw;
  }
  claims_->release(most);
  take_the_rest();
}

// On the worker's thread.
std::optional<pipeline::Tagged<ImpalaRun::Queued>> ImpalaRun::produce(int worker) {
  fault_point("impala.collect");
  std::optional<SlotPool::Lease> slot = slots_.try_acquire();
  TANDEM_CHECK(slot.has_value(), "no slot for a batch");
  QueuedBatch& batch = queued_[slot->index()];
  const std::int64_t version = samplers_[count_of(worker)]->collect(*behaviour_, batch);
  std::int64_t rows = 0;
  for (const Fragment& part : batch.parts) rows += std::int64_t{part.steps} * part.rows;
  return pipeline::Tagged<Queued>{.data = {.slot = std::move(*slot)}, .tag = {.version = version, .samples = rows}};
}

// On the loader's thread.
void ImpalaRun::load_batch(Queued& queued, ShardedTrajectory& into) {
  device::use_one_core();
  fault_point("impala.load");
  into.copy_from(queued_[queued.slot.index()]);
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
  learned.grad_norm = made.grad_norm;
  learned.sync_seconds = made.wait_seconds;
  ++steps_;
  if (setup_.appo && steps_ % setup_.appo->target_update_steps == 0) learner_->renew_targets();
  exchange(batch, step, made.shards, learned);
  publish();
  learned.learning_rate = setup_.impala.learning_rate * lr_factor;
  learned.learn_seconds = seconds_since(begun) - learned.sync_seconds;
  return learned;
}

ImpalaRun::Learned ImpalaRun::drop(ShardedTrajectory& batch, const pipeline::LearnStep& step) {
  Learned nothing;
  nothing.dropped = true;
  exchange(batch, step, {}, nothing);
  return nothing;
}

void ImpalaRun::exchange(const ShardedTrajectory& batch, const pipeline::LearnStep& step,
                         std::span<const ImpalaNumbers> shards, Learned& learned) {
  const Clock::time_point begun = Clock::now();
  learned.episodes = told_slots_.try_acquire();
  TANDEM_CHECK(learned.episodes.has_value(), "no room for episodes");
  StepNews::Mine mine{.new_samples = 0, .shards = shards, .results = {}};
  if (step.first_pass) {
    mine.new_samples = learned.own_samples = step.tag.samples;
    mine.results = batch.results;
  }
  const StepNews::News news = news_->exchange(mine, normalizers_, told_[learned.episodes->index()]);
  learned.numbers = news.numbers;
  learned.new_samples = news.new_samples;
  learned_samples_ += news.new_samples;
  if (setup_.ranks.size() > 1) learned.sync_seconds += seconds_since(begun);
}

void ImpalaRun::publish() {
  behaviour_->publish(steps_, [this](Behaviour& copy) {
    copy_weights(learner_->weights(), copy.weights);
    copy.normalizers = normalizers_;
  });
}

// When the group was aborted because a thread of this rank has failed, that failure is the one to report.
std::vector<std::vector<double>> ImpalaRun::gather_while_sampling(const std::vector<double>& mine) {
  try {
    return setup_.ranks.gather(mine);
  } catch (const GroupAborted&) {
    while (has_failed_ && next()) {
    }
    throw;
  }
}

// A stall is seen here.
std::optional<ImpalaRun::Learned> ImpalaRun::next() {
  return guarded([this] { return pipeline_->next(); })();
}

// Nothing new comes any more: the last update has all passes that are left.
void ImpalaRun::take_the_rest() {
  if (permits_) permits_->open();
  while (std::optional<Learned> learned = next()) account(std::move(*learned));
}

RunReport ImpalaRun::update() {
  if (!pipeline_) start();
  if (permits_) permits_->grant(setup_.impala.batches_per_update);
  // What save() learned from besides is reported, and not waited for less: else a resumed run would save at other
  // times.
  for (int steps = 0; steps < setup_.impala.batches_per_update;) {
    std::optional<Learned> learned = next();
    if (!learned) break;  // all steps are made
    steps += learned->dropped ? 0 : 1;
    account(std::move(*learned));
  }
  if (env_steps_ >= setup_.total_steps) take_the_rest();
  return finish_update();
}

}  // namespace tandem::rl
