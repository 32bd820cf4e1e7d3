#include "tandem/rl/algo/impala/impala_seats.h"

#include <algorithm>
#include <utility>

#include "tandem/base/text.h"

// Construction, in this order: learners of all seats, since they say which shards this rank has; the published
// behaviour, with their first weights; a sampler for each worker; and memory shaped like the first sampler's fragments.
// After that nothing here allocates in a warm run, except where more episodes end than were expected.
namespace tandem::rl {
namespace {

constexpr std::size_t kMostExpectedEpisodes = 4096;  // of a batch

// Workers, the threads of their splits and the learner wait for each other.
SpinBudget spin_of(const ImpalaOptions& impala) { return spin_budget_for(impala.workers * (1 + impala.splits) + 1); }

}  // namespace

ImpalaSampler::ImpalaSampler(std::vector<std::shared_ptr<ActorCritic>> policies, const std::vector<bool>& trained,
                             SampledEnvs envs, std::vector<Normalizers> normalizers)
    : policies_(std::move(policies)), envs_(std::move(envs)), normalizers_(std::move(normalizers)) {
  for (std::size_t policy = 0; policy < policies_.size(); ++policy)
    if (trained[policy]) weights_.push_back(weights_of(*policies_[policy]));
}

QueuedBatch ImpalaSampler::make_slot() const {
  QueuedBatch slot;
  if (envs_.of_one) {
    for (const auto& group : envs_.of_one->groups()) slot.parts.push_back(group->make_fragment());
  }
  for (const auto& group : envs_.of_several) slot.decisions.push_back(group->make_fragments());
  return slot;
}

// The reading ends before the rollout begins: copying takes microseconds and a rollout much longer, and the writer must
// find a free copy meanwhile. Fragments of one agent are written by the environments and the policy in place.
std::int64_t ImpalaSampler::collect(pipeline::Published<Behaviour>& newest, double progress, QueuedBatch& into) {
  {
    const auto reading = newest.read();
    if (reading.version() != version_) {
      for (std::size_t i = 0; i < weights_.size(); ++i) copy_weights(reading.value().weights[i], weights_[i]);
      normalizers_ = reading.value().normalizers;
    }
    version_ = reading.version();
  }
  into.results.clear();
  if (envs_.of_one) {
    for (const auto& group : envs_.of_one->groups()) group->set_progress(progress);
    envs_.of_one->collect(normalizers_.front(), into.parts);
    for (const auto& group : envs_.of_one->groups()) group->append_results(into.results);
  }
  for (std::size_t group = 0; group < envs_.of_several.size(); ++group) {
    envs_.of_several[group]->set_progress(progress);
    envs_.of_several[group]->collect(normalizers_, into.decisions[group]);
    envs_.of_several[group]->append_results(into.results);
  }
  return version_;
}

void ImpalaSampler::save(int first, learner::StateParts& parts) const {
  if (envs_.of_one) return save_groups(envs_.of_one->groups(), first, parts);
  save_groups(envs_.of_several, first, parts);
}

RolloutWorker::Resumed ImpalaSampler::load(const learner::StateParts& parts, int first,
                                           std::uint64_t seed_of_new_episodes) const {
  if (envs_.of_one) return load_groups(parts, envs_.of_one->groups(), first, seed_of_new_episodes);
  return load_groups(parts, envs_.of_several, first, seed_of_new_episodes);
}

// Built in this order: learners, the published copies of their weights, samplers with policies and env groups, and last
// the memory of batches, whose shape the samplers know.
ImpalaSeats::ImpalaSeats(const ImpalaSetup& setup, const ImpalaMemory& memory, Clock::duration patience)
    : setup_(setup),
      map_(map_of(setup_, spec_)),
      ranks_(setup_.ranks.with_patience(patience)),
      normalizers_(normalizers_of(setup_, map_)),
      seats_(map_.size()),
      learned_(map_.size()),
      shards_(map_.size()),
      moments_(moments_of(setup_, map_)) {
  build_seats(patience);
  behaviour_ = std::make_unique<pipeline::Published<Behaviour>>(setup_.impala.workers + 1, [this] {
    Behaviour copy{.weights = {}, .normalizers = normalizers_};
    for (const Seat& seat : seats_) {
      if (seat.learner) copy.weights.push_back(copies_of(seat.learner->weights()));
    }
    return copy;
  });
  for (int worker = 0; worker < setup_.impala.workers; ++worker) build_sampler(worker);
  build_memory(memory);
}

void ImpalaSeats::build_seats(Clock::duration patience) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (has_agents() && remembers(*build_policy(setup_, map_, p)))
      throw ConfigError(concat("policy '", map_[p].name, "' remembers; IMPALA and APPO do not train policies of ",
                               "several agents that do so far, PPO does"));
    if (!map_[p].trained) {
      seats_[p].frozen = build_policy(setup_, map_, p);
      continue;
    }
    LearnedPolicy learned{.build = [this, p] { return build_policy(setup_, map_, p); }, .seed = seed_of(setup_, p)};
    if (has_agents()) {
      learned.threads = threads_of_policy(map_[p].name);
      learned.batches = BatchesOf::kDecisions;
    }
    seats_[p].learner = std::make_unique<ImpalaLearner>(setup_, learned, patience);
  }
}

// Every worker has its own modules of all policies, since it acts while the learner changes the others. They stay in
// evaluation mode.
void ImpalaSeats::build_sampler(int worker) {
  std::vector<std::shared_ptr<ActorCritic>> policies;
  std::vector<bool> trained;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    policies.push_back(build_policy(setup_, map_, p));
    policies.back()->eval();
    trained.push_back(map_[p].trained);
  }
  SampledEnvs envs = build_envs(policies, worker);
  samplers_.push_back(std::make_unique<ImpalaSampler>(std::move(policies), trained, std::move(envs), normalizers_));
}

// Groups get their numbers in the run, from which seeds and random streams follow.
SampledEnvs ImpalaSeats::build_envs(std::span<const std::shared_ptr<ActorCritic>> policies, int worker) const {
  const ImpalaOptions& impala = setup_.impala;
  const int envs = impala.num_envs / impala.workers / setup_.shards / impala.splits;
  const Range numbers = group_numbers(worker);
  ActorCritic& policy = *policies.front();
  RolloutOptions options{.steps = impala.rollout_steps,
                         .gamma = impala.gamma,
                         .time_limit = impala.time_limit,
                         .sequences = {.length = impala.rollout_steps},
                         .normalizer = setup_.normalizer};
  SampledEnvs all;
  if (has_agents()) {
    for (int number = numbers.begin; number < numbers.end; ++number) {
      options.remarks = number == 0 ? setup_.remarks : nullptr;
      all.of_several.push_back(std::make_unique<MultiAgentWorker>(
          setup_.agents->make_envs(envs), policy_seats(setup_, map_, policies, envs, number), options, number * envs));
      all.of_several.back()->reset(setup_.seed);
    }
    return all;
  }
  std::vector<std::unique_ptr<RolloutWorker>> groups;
  for (int number = numbers.begin; number < numbers.end; ++number) {
    std::unique_ptr<EnvGroup> envs_of_group = setup_.make_envs(envs);
    std::unique_ptr<Actor> actor = make_actor(policy, setup_.actor, envs, setup_.seed, number);
    options.remarks = number == 0 ? setup_.remarks : nullptr;
    groups.push_back(
        std::make_unique<RolloutWorker>(std::move(envs_of_group), std::move(actor), options, number * envs));
    groups.back()->reset(setup_.seed);
  }
  const Stepping stepping = impala.execution == ImpalaExecution::kInline ? Stepping::kInTurn : Stepping::kOwnThreads;
  all.of_one = std::make_unique<AlternatingRollout>(std::move(groups), impala.splits, stepping, concat("envs ", worker),
                                                    spin_of(impala));
  return all;
}

// All slots and buffers are made like the first worker's: workers have groups of the same sizes.
void ImpalaSeats::build_memory(const ImpalaMemory& memory) {
  const ImpalaOptions& impala = setup_.impala;
  // Of the environments of a batch, or of the agents of a policy. Memory for them seldom has to grow.
  const std::size_t episodes =
      std::min(index_of(impala.num_envs / impala.workers) * index_of((impala.rollout_steps / 2 + 1) * spec_.agents),
               kMostExpectedEpisodes);
  const std::size_t results = episodes * (4 * (has_agents() ? 1 + map_.size() : 1) + spec_.metrics.size());
  for (std::size_t i = 0; i < memory.slots; ++i) {
    queued_.push_back(samplers_.front()->make_slot());
    queued_.back().results.reserve(results);
  }
  const QueuedBatch& like = queued_.front();
  for (std::size_t i = 0; i < memory.buffers; ++i) {
    Loaded& loaded = buffers_.emplace_back();
    loaded.results.reserve(results);
    loaded.trajectories.resize(map_.size());
    loaded.batches.resize(map_.size());
    for (std::size_t p = 0; p < map_.size(); ++p) {
      if (!map_[p].trained) continue;
      const std::vector<c10::Device>& devices = seats_[p].learner->shard_devices();
      for (std::size_t shard = 0; shard < devices.size(); ++shard) {
        Trajectory trajectory = has_agents() ? Trajectory(*like.decisions[shard][p], devices[shard])
                                             : Trajectory(like.parts.front(), setup_.impala.splits, devices[shard]);
        loaded.batches[p].push_back(trajectory.batch());
        loaded.trajectories[p].push_back(std::move(trajectory));
      }
    }
  }
  tellings_.resize(memory.tellings);
  for (Telling& telling : tellings_) {
    telling.results.episodes.reserve(episodes);
    telling.results.metrics = spec_.metrics.size();
    if (has_agents()) telling.results.policies.resize(map_.size());
    for (std::size_t p = 0; p < telling.results.policies.size(); ++p)
      telling.results.policies[p].episodes.reserve(episodes);
    telling.numbers.resize(map_.size());
    telling.grad_norms.resize(map_.size());
  }
}

ImpalaLearner& ImpalaSeats::any_learner() const {
  return *std::ranges::find_if(seats_, [](const Seat& seat) { return seat.learner != nullptr; })->learner;
}

// Policies that are not trained have no gradients to tell of.
std::string ImpalaSeats::gradients_by() const {
  std::string text;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (seats_[p].learner) append_gradients(map_[p].name, seats_[p].learner->gradients_by(), text);
  }
  return text;
}

// On a loader's thread. The views of a trajectory of whole fragments stay the same; decisions differ in their rows.
void ImpalaSeats::load_batch(std::size_t slot, std::size_t buffer) {
  const QueuedBatch& queued = queued_[slot];
  Loaded& loaded = buffers_[buffer];
  const std::size_t splits = index_of(setup_.impala.splits);
  for (std::size_t p = 0; p < map_.size(); ++p) {
    for (std::size_t shard = 0; shard < loaded.trajectories[p].size(); ++shard) {
      Trajectory& trajectory = loaded.trajectories[p][shard];
      if (has_agents()) {
        trajectory.copy_from(*queued.decisions[shard][p]);
        loaded.batches[p][shard] = trajectory.batch();
      } else {
        trajectory.copy_from(std::span(queued.parts).subspan(shard * splits, splits));
      }
    }
  }
  loaded.results = queued.results;
}

// All ranks make the same steps, so every rank must know which policies have no decision on any. Returns the seconds
// that this rank waited for the others, who may have no batch yet.
double ImpalaSeats::count_decisions(const Loaded& loaded) {
  mine_.assign(map_.size(), 0);
  for (std::size_t p = 0; p < map_.size(); ++p) {
    for (const Trajectory& shard : loaded.trajectories[p]) mine_[p] += static_cast<double>(shard.decisions());
  }
  const Clock::time_point begun = Clock::now();
  ranks_.gather(mine_, all_);
  return ranks_.size() > 1 ? seconds_since(begun) : 0;
}

// A policy without a decision on any rank is passed over by all ranks, or the others would wait for its step for ever.
double ImpalaSeats::step(std::size_t buffer, double lr_factor) {
  const Loaded& loaded = buffers_[buffer];
  double wait_seconds = has_agents() ? count_decisions(loaded) : 0;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    learned_[p] = {};
    const auto has_decisions = [p](const std::vector<double>& rank) { return rank[p] > 0; };
    if (has_agents() && std::ranges::none_of(all_, has_decisions)) continue;
    const ImpalaLearner::Step made = seats_[p].learner->step(loaded.batches[p], lr_factor);
    learned_[p] = made.shards;
    seats_[p].grad_norm = made.grad_norm;
    wait_seconds += made.wait_seconds;
  }
  return wait_seconds;
}

void ImpalaSeats::renew_targets() {
  for (const Seat& seat : seats_) {
    if (seat.learner) seat.learner->renew_targets();
  }
}

// Each rank's message: new samples; for each policy the number of its shards, and each shard's numbers; then the
// results of the env groups, to the end. Ranks are read in their order, so all make the same means, and merge the
// moments of all ranks in the same order, so their normalizers stay equal.
std::int64_t ImpalaSeats::exchange(std::size_t buffer, std::int64_t new_samples, bool dropped, std::size_t telling) {
  Telling& told = tellings_[telling];
  told.results.clear();
  if (dropped) std::ranges::fill(learned_, std::span<const ImpalaNumbers>());
  mine_.assign({static_cast<double>(new_samples)});
  for (const std::span<const ImpalaNumbers> policy : learned_) {
    mine_.push_back(static_cast<double>(policy.size()));
    for (const ImpalaNumbers& shard : policy) learner::append_struct(shard, mine_);
  }
  const std::vector<double>& results = buffers_[buffer].results;
  if (new_samples > 0) mine_.insert(mine_.end(), results.begin(), results.end());
  setup_.ranks.gather(mine_, all_);

  new_samples = 0;
  for (std::vector<ImpalaNumbers>& shards : shards_) shards.clear();
  for (const std::vector<double>& rank : all_) {
    std::span<const double> its = rank;
    new_samples += static_cast<std::int64_t>(learner::take_struct<double>(its));
    for (std::vector<ImpalaNumbers>& shards : shards_) {
      const auto count = static_cast<std::int64_t>(learner::take_struct<double>(its));
      for (std::int64_t i = 0; i < count; ++i) shards.push_back(learner::take_struct<ImpalaNumbers>(its));
    }
    take_results(its, moments_, normalizers_, told.results);
  }
  for (std::size_t p = 0; p < map_.size(); ++p) {
    told.numbers[p] = mean_of(shards_[p]);
    told.grad_norms[p] = seats_[p].grad_norm;
  }
  if (new_samples > 0) {
    for (Normalizers& its : normalizers_) its.finish_merge();
  }
  return new_samples;
}

// Runs between two steps, so the weights stay as they are meanwhile.
void ImpalaSeats::publish(std::int64_t version) {
  behaviour_->publish(version, [this](Behaviour& copy) {
    std::size_t next = 0;
    for (const Seat& seat : seats_) {
      if (seat.learner) copy_weights(seat.learner->weights(), copy.weights[next++]);
    }
    copy.normalizers = normalizers_;
  });
}

// The learner may be in a step, so its own weights are not looked at.
learner::StateParts ImpalaSeats::policies() {
  const auto reading = behaviour_->read();
  learner::StateParts parts;
  std::size_t next = 0;
  for (std::size_t s = 0; s < seats_.size(); ++s) {
    model::NamedTensors tensors = model::named_state_of(seats_[s].policy());
    if (seats_[s].learner) {
      const Weights& weights = reading.value().weights[next++];
      TANDEM_CHECK(weights.size() == tensors.size(), weights.size(), " weights of ", tensors.size(), " tensors");
      for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].second = weights[i];
    }
    const PolicyNames names(map_[s].name);
    parts.emplace_back(names.part, rl::copies_of(tensors));
    if (keeps_normalizers(setup_)) parts.emplace_back(names.normalizers, reading.value().normalizers[s].state());
  }
  return parts;
}

void ImpalaSeats::forget() {
  for (const auto& sampler : samplers_) sampler->forget();
}

// On the owner's thread. A policy that made no step of the batch counts its agents' episodes, and nothing else.
void ImpalaSeats::account(std::size_t telling, bool dropped) {
  Telling& told = tellings_[telling];
  episodes_.add(told.results.episodes);
  for (std::size_t p = 0; p < map_.size(); ++p) {
    Seat& seat = seats_[p];
    const bool has_learned = !dropped && told.numbers[p].rows > 0;
    if (has_agents()) {
      seat.episodes.add(told.results.policies[p].episodes);
      if (has_learned) seat.decisions += told.results.policies[p].decisions;
    }
    if (!has_learned) continue;
    ++seat.sums.minibatches;
    seat.sums += told.numbers[p];
    seat.sums.explained_variance += told.numbers[p].explained_variance;
    seat.sums.grad_norm += told.grad_norms[p];
  }
}

// The run's losses are the means over the trained policies; with one agent, its own.
void ImpalaSeats::add_to(RunReport& report) {
  reports_.clear();
  for (std::size_t p = 0; p < map_.size(); ++p) {
    Seat& seat = seats_[p];
    PolicyReport& its = reports_.emplace_back();
    its.name = map_[p].name;
    its.decisions = std::exchange(seat.decisions, 0);
    report_episodes(seat.episodes, its);
    if (!seat.learner) continue;
    its.learning = std::exchange(seat.sums, {});
    const auto steps = static_cast<double>(its.learning->minibatches);  // of none the means are not a number
    *its.learning /= steps;
    its.learning->explained_variance /= steps;
    its.learning->grad_norm /= steps;
    its.learning->learning_rate = report.learning.learning_rate;
    its.learning->entropy_coef = setup_.impala.entropy_coef;
    if (setup_.appo) its.learning->kl_coef = setup_.appo->kl_coef;
  }
  const LearnReport mean = mean_of(reports_);
  static_cast<Losses&>(report.learning) = mean;
  report.learning.explained_variance = mean.explained_variance;
  report.learning.grad_norm = mean.grad_norm;
  if (setup_.appo) report.learning.kl_coef = setup_.appo->kl_coef;
  report_episodes(episodes_, report);
  report_metrics(spec_, episodes_, report);
  if (has_agents()) report.policies = reports_;
}

std::vector<learner::ReplicaTeam::Work> ImpalaSeats::work() const {
  std::vector<learner::ReplicaTeam::Work> all;
  for (const Seat& seat : seats_) {
    if (seat.learner) add_work(seat.learner->team().work(), all);
  }
  return all;
}

}  // namespace tandem::rl
