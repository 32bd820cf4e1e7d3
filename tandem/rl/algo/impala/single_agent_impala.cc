#include "tandem/rl/algo/impala/single_agent_impala.h"

#include <ATen/ATen.h>

#include <functional>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {
namespace {

constexpr const char* kTarget = "target";  // part of a checkpoint

std::size_t count_of(int number) { return static_cast<std::size_t>(number); }

// Of one batch, so that it seldom grows: as many as there are when each lasts for 16 steps.
std::size_t expected_episodes(const ImpalaOptions& impala) {
  return count_of(impala.num_envs / impala.workers) * count_of(1 + impala.rollout_steps / 16);
}

// How the splits of a worker step.
Stepping stepping_of(const ImpalaOptions& impala) {
  return impala.execution == ImpalaExecution::kInline ? Stepping::kInTurn : Stepping::kOwnThreads;
}

// Workers, the threads of their splits and the learner wait for each other.
SpinBudget spin_of(const ImpalaOptions& impala) { return spin_budget_for(impala.workers * (1 + impala.splits) + 1); }

}  // namespace

SingleAgentImpala::SingleAgentImpala(const ImpalaSetup& setup, const ImpalaMemory& memory, Clock::duration patience)
    : setup_(setup),
      spec_(setup_.make_envs(1)->spec()),
      normalizers_(spec_, setup_.normalizer),
      moments_(spec_, setup_.normalizer) {
  if (spec_.agents != 1) {
    throw ConfigError(concat(spec_.id, " has ", spec_.agents,
                             " agents in an environment, and the setup speaks of one; say whose policies there are "
                             "(ImpalaSetup::agents)"));
  }
  learner_ = std::make_unique<ImpalaLearner>(
      setup_, LearnedPolicy{.build = [this] { return build_policy(); }, .seed = setup_.seed}, patience);
  news_ = std::make_unique<StepNews>(setup_.ranks, 1);
  behaviour_ = std::make_unique<pipeline::Published<Behaviour>>(setup_.impala.workers, [this] {
    return Behaviour{.weights = copies_of(learner_->weights()), .normalizers = normalizers_};
  });
  for (int worker = 0; worker < setup_.impala.workers; ++worker) build_sampler(worker);
  build_memory(memory);
}

SingleAgentImpala::~SingleAgentImpala() = default;

// The same parameters for each.
std::shared_ptr<ActorCritic> SingleAgentImpala::build_policy() const {
  at::Generator generator = at::detail::createCPUGenerator(derive_seed(setup_.seed, SeedPurpose::kParameters, 0));
  return setup_.make_policy(spec_, generator);
}

void SingleAgentImpala::build_sampler(int worker) {
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

void SingleAgentImpala::build_memory(const ImpalaMemory& memory) {
  for (std::size_t i = 0; i < memory.slots; ++i) {
    QueuedBatch& slot = queued_.emplace_back();
    for (const auto& group : samplers_.front()->rollout().groups()) slot.parts.push_back(group->make_fragment());
    slot.results.reserve(expected_results());
  }
  const Fragment& part = queued_.front().parts.front();
  const std::int64_t state_size = part.state.defined() ? part.state.size(2) : 0;
  for (std::size_t i = 0; i < memory.buffers; ++i) {
    buffers_.emplace_back(spec_, part.steps, part.rows * setup_.impala.splits, state_size, learner_->shard_devices());
    buffers_.back().results.reserve(expected_results());
  }
  tellings_.resize(memory.tellings);
  for (Telling& telling : tellings_) telling.episodes.reserve(expected_episodes(setup_.impala));
}

// Numbers that the env groups of this rank bring with a batch.
std::size_t SingleAgentImpala::expected_results() const {
  std::size_t of_a_group = 2 + 2 * moments_.discounted_return.size();
  for (const RunningMoments& leaf : moments_.observation) of_a_group += 1 + 2 * leaf.size();
  return count_of(group_numbers(0).size()) * of_a_group + 4 * expected_episodes(setup_.impala);
}

std::int64_t SingleAgentImpala::collect(int worker, std::size_t slot) {
  return samplers_[count_of(worker)]->collect(*behaviour_, queued_[slot]);
}

void SingleAgentImpala::load_batch(std::size_t slot, std::size_t buffer) { buffers_[buffer].copy_from(queued_[slot]); }

ImpalaWork::Step SingleAgentImpala::step(std::size_t buffer, double lr_factor) {
  const ImpalaLearner::Step made = learner_->step(buffers_[buffer].batches(), lr_factor);
  learned_ = made.shards;
  return {.grad_norm = made.grad_norm, .wait_seconds = made.wait_seconds};
}

std::int64_t SingleAgentImpala::exchange(std::size_t buffer, const News& mine, std::size_t telling) {
  Telling& told = tellings_[telling];
  told.episodes.clear();
  if (mine.dropped) learned_ = {};
  const auto take = [&](std::span<const double> results) {
    take_results(results, moments_, normalizers_, told.episodes);
  };
  const std::int64_t new_samples = news_->exchange(
      {.new_samples = mine.new_samples,
       .policies = {&learned_, 1},
       .results = mine.new_samples > 0 ? std::span<const double>(buffers_[buffer].results) : std::span<const double>()},
      {&told.numbers, 1}, std::cref(take));
  if (new_samples > 0) normalizers_.finish_merge();
  return new_samples;
}

void SingleAgentImpala::publish(std::int64_t version) {
  behaviour_->publish(version, [this](Behaviour& copy) {
    copy_weights(learner_->weights(), copy.weights);
    copy.normalizers = normalizers_;
  });
}

void SingleAgentImpala::forget() {
  for (const auto& sampler : samplers_) sampler->forget();
}

void SingleAgentImpala::account(std::size_t telling, bool dropped) {
  Telling& told = tellings_[telling];
  episodes_.add(told.episodes);
  if (!dropped) add_numbers(told.numbers, sums_);
}

void SingleAgentImpala::add_to(RunReport& report) {
  take_means(std::exchange(sums_, {}), report.learning);
  report_episodes(episodes_, report);
}

std::string SingleAgentImpala::params_sha256() { return params_sha256_of(learner_->policy()); }

std::string SingleAgentImpala::state_sha256() {
  model::NamedTensors target;
  for (const auto& [name, tensor] : learner_->target()) target.emplace_back(concat("target.", name), tensor);
  return state_sha256_of(learner_->team(), normalizers_, target);
}

std::vector<std::string> SingleAgentImpala::part_names() const {
  std::vector<std::string> names{"state", "normalizers"};
  if (setup_.appo) names.emplace_back(kTarget);
  for (int shard = 0; shard < setup_.shards; ++shard) names.push_back(shard_part(shard));
  const int groups = setup_.impala.workers * setup_.shards * setup_.impala.splits;
  for (int group = 0; group < groups; ++group) names.push_back(group_part(group));
  return names;
}

void SingleAgentImpala::save(learner::StateParts& parts) {
  model::NamedTensors state = learner_->team().state();  // of all ranks together
  if (setup_.ranks.leads()) {
    parts.emplace_back("state", std::move(state));
    if (setup_.appo) parts.emplace_back(kTarget, learner_->target());
    parts.emplace_back("normalizers", normalizers_.state());
  }
  for (int shard = shards().begin; shard < shards().end; ++shard)
    parts.emplace_back(shard_part(shard), stream_of(learner_->generator(shard)));
  for (int worker = 0; worker < setup_.impala.workers; ++worker)
    save_groups(samplers_[count_of(worker)]->rollout().groups(), group_numbers(worker).begin, parts);
}

// Once the shards were found to be as many as here.
void SingleAgentImpala::check_first_group(const model::NamedTensors& first_group) const {
  const std::string name = group_part(0);
  const at::Tensor bytes = find(first_group, "state", name).contiguous();
  const std::int64_t there = RolloutWorker::saved_envs(bytes_of(bytes));
  const ImpalaOptions& impala = setup_.impala;
  const std::int64_t of_worker = impala.num_envs / impala.workers;
  if (setup_.shards == 1 || there != of_worker) return;
  throw OutdatedCheckpoint(
      concat("its part '", name, "' has all ", of_worker, " environments of a rollout worker, and this run's has ",
             of_worker / setup_.shards / impala.splits, " of them (num_envs ", impala.num_envs, " / ", impala.workers,
             " workers / ", setup_.shards, " shards / ", impala.splits,
             " splits): an earlier build wrote it, in which a rollout worker had one env group for all shards, and "
             "that cannot be divided. Only that build goes on from it"));
}

RolloutWorker::Resumed SingleAgentImpala::load(const learner::StateParts& parts, const Before& before) {
  const auto part = [&parts](const std::string& name) { return learner::part_of(parts, name); };
  restore_episodes(before.run, before.episodes, episodes_);
  learner_->team().set_passes(before.passes);
  learner_->team().load_state(part("state"));
  if (setup_.appo) learner_->load_target(part(kTarget));
  for (int shard = shards().begin; shard < shards().end; ++shard)
    load_stream(part(shard_part(shard)), learner_->generator(shard), shard);
  normalizers_.load(part("normalizers"));
  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    if (load_groups(parts, samplers_[count_of(worker)]->rollout().groups(), group_numbers(worker).begin,
                    before.seed_of_new_episodes) != RolloutWorker::Resumed::kExactly)
      resumed = RolloutWorker::Resumed::kWithNewEpisodes;
  }
  return resumed;
}

}  // namespace tandem::rl
