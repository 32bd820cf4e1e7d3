#include "tandem/rl/algo/impala/impala_seats.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/agent_policies.h"
#include "tandem/rl/algo/policy_reports.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/rollout/group_results.h"

// Construction, in this order: learners of all seats, since they say which shards this rank has; the published
// behaviour, with their first weights; a sampler for each worker; and memory shaped like the first sampler's fragments.
// After that nothing here allocates in a warm run, except where more episodes end than were expected.
namespace tandem::rl {
namespace {

constexpr std::size_t kMostExpectedEpisodes = 4096;  // of a batch

// The policies of the run, and what its environments are like as a whole. One agent's policy has no name, and is
// trained.
PolicyMap map_of(const ImpalaSetup& setup, Spec& whole) {
  if (setup.agents) {
    const MultiAgentSpec agents = setup.agents->make_envs(1)->spec();
    whole = whole_spec(agents);
    return policy_map(agents, setup.agents->policies);
  }
  whole = setup.make_envs(1)->spec();
  if (whole.agents == 1) return {MappedPolicy{.name = "", .agents = {0}, .spec = whole}};
  throw ConfigError(concat(whole.id, " has ", whole.agents,
                           " agents in an environment, and the setup speaks of one; say whose policies there are "
                           "(ImpalaSetup::agents)"));
}

// Workers, the threads of their splits and the learner wait for each other.
SpinBudget spin_of(const ImpalaOptions& impala) { return spin_budget_for(impala.workers * (1 + impala.splits) + 1); }

}  // namespace

// Built in this order: learners, the published copies of their weights, samplers with policies and env groups, and last
// the memory of batches, whose shape the samplers know.
ImpalaSeats::ImpalaSeats(const ImpalaSetup& setup, const ImpalaMemory& memory, Clock::duration patience)
    : setup_(setup),
      map_(map_of(setup_, spec_)),
      ranks_(setup_.ranks.with_patience(patience)),
      normalizers_(spec_, setup_.normalizer),
      seats_(map_.size()),
      own_decisions_(map_.size()),
      learned_(map_.size()),
      moments_(spec_, setup_.normalizer),
      news_(setup_.ranks, map_.size()) {
  build_seats(patience);
  behaviour_ = std::make_unique<pipeline::Published<Behaviour>>(setup_.impala.workers, [this] {
    Behaviour copy{.weights = {}, .normalizers = normalizers_};
    for (const Seat& seat : seats_) {
      if (seat.learner) copy.weights.push_back(copies_of(seat.learner->weights()));
    }
    return copy;
  });
  for (int worker = 0; worker < setup_.impala.workers; ++worker) build_sampler(worker);
  build_memory(memory);
}

ImpalaSeats::~ImpalaSeats() = default;

std::uint64_t ImpalaSeats::seed_of(std::size_t policy) const {
  return has_agents() ? seed_of_policy(setup_.seed, policy) : setup_.seed;
}

// Returns a new module, which has the same parameters each time.
std::shared_ptr<ActorCritic> ImpalaSeats::build_policy(std::size_t policy) const {
  if (has_agents()) return make_mapped_policy(setup_.agents->make_policy, map_[policy], seed_of(policy));
  at::Generator generator = at::detail::createCPUGenerator(derive_seed(setup_.seed, SeedPurpose::kParameters, 0));
  return setup_.make_policy(spec_, generator);
}

void ImpalaSeats::build_seats(Clock::duration patience) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (!map_[p].trained) {
      seats_[p].frozen = build_policy(p);
      continue;
    }
    LearnedPolicy learned{.build = [this, p] { return build_policy(p); }, .seed = seed_of(p)};
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
    policies.push_back(build_policy(p));
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
  SampledEnvs all;
  if (has_agents()) {
    const MultiAgentRolloutOptions options{
        .steps = impala.rollout_steps, .gamma = impala.gamma, .time_limit = impala.time_limit};
    for (int number = numbers.begin; number < numbers.end; ++number) {
      all.of_several.push_back(std::make_unique<MultiAgentWorker>(
          setup_.agents->make_envs(envs), policy_seats(map_, policies, setup_.actor, envs, setup_.seed, number),
          options, number * envs));
      all.of_several.back()->reset(setup_.seed);
    }
    return all;
  }
  ActorCritic& policy = *policies.front();
  const RolloutOptions options{.steps = impala.rollout_steps,
                               .gamma = impala.gamma,
                               .time_limit = impala.time_limit,
                               .family = policy.family(),
                               .sequences = {.length = impala.rollout_steps},
                               .normalizer = setup_.normalizer};
  std::vector<std::unique_ptr<RolloutWorker>> groups;
  for (int number = numbers.begin; number < numbers.end; ++number) {
    std::unique_ptr<EnvGroup> envs_of_group = setup_.make_envs(envs);
    std::unique_ptr<Actor> actor = make_actor(policy, setup_.actor, envs, setup_.seed, number);
    groups.push_back(
        std::make_unique<RolloutWorker>(std::move(envs_of_group), std::move(actor), options, number * envs));
    groups.back()->reset(setup_.seed);
  }
  const Stepping stepping = impala.execution == ImpalaExecution::kInline ? Stepping::kInTurn : Stepping::kOwnThreads;
  all.of_one = std::make_unique<AlternatingRollout>(std::move(groups), impala.splits, stepping, concat("envs ", worker),
                                                    spin_of(impala));
  return all;
}

// Episodes of a batch, of so many agents in each environment. Memory for them seldom has to grow.
std::size_t ImpalaSeats::expected_episodes(std::size_t agents) const {
  const ImpalaOptions& impala = setup_.impala;
  return std::min(index_of(impala.num_envs / impala.workers) * index_of(impala.rollout_steps / 2 + 1) * agents,
                  kMostExpectedEpisodes);
}

// Numbers that the env groups of this rank bring with a batch; see group_results.h and agent_results.h.
std::size_t ImpalaSeats::expected_results() const {
  std::size_t of_a_group = 1, episodes = expected_episodes(1);
  if (has_agents()) {
    of_a_group += 2 * map_.size();
    for (const MappedPolicy& policy : map_) episodes += expected_episodes(policy.agents.size());
  } else {
    of_a_group += 1 + 2 * moments_.discounted_return.size();
    for (const RunningMoments& leaf : moments_.observation) of_a_group += 1 + 2 * leaf.size();
  }
  return index_of(group_numbers(0).size()) * of_a_group + 4 * episodes;
}

// All slots and buffers are made like the first worker's: workers have groups of the same sizes.
void ImpalaSeats::build_memory(const ImpalaMemory& memory) {
  for (std::size_t i = 0; i < memory.slots; ++i) {
    queued_.push_back(samplers_.front()->make_slot());
    queued_.back().results.reserve(expected_results());
  }
  const QueuedBatch& like = queued_.front();
  for (std::size_t i = 0; i < memory.buffers; ++i) {
    Loaded& loaded = buffers_.emplace_back();
    loaded.results.reserve(expected_results());
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
    telling.results.episodes.reserve(expected_episodes(1));
    if (has_agents()) telling.results.policies.resize(map_.size());
    for (std::size_t p = 0; p < telling.results.policies.size(); ++p)
      telling.results.policies[p].episodes.reserve(expected_episodes(map_[p].agents.size()));
    telling.numbers.resize(map_.size());
    telling.grad_norms.resize(map_.size());
  }
}

ImpalaLearner& ImpalaSeats::any_learner() const {
  return *std::ranges::find_if(seats_, [](const Seat& seat) { return seat.learner != nullptr; })->learner;
}

// Policies that are not trained have no gradients to tell of.
std::string ImpalaSeats::gradients_by() const {
  std::vector<GradientsOfPolicy> policies;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (seats_[p].learner) policies.push_back({map_[p].name, seats_[p].learner->gradients_by()});
  }
  return rl::gradients_by(policies);
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
  for (std::size_t p = 0; p < map_.size(); ++p) {
    own_decisions_[p] = 0;
    for (const Trajectory& shard : loaded.trajectories[p]) own_decisions_[p] += static_cast<double>(shard.decisions());
  }
  const Clock::time_point begun = Clock::now();
  ranks_.gather(own_decisions_, all_decisions_);
  return ranks_.size() > 1 ? seconds_since(begun) : 0;
}

// A policy without a decision on any rank is passed over by all ranks, or the others would wait for its step for ever.
double ImpalaSeats::step(std::size_t buffer, double lr_factor) {
  const Loaded& loaded = buffers_[buffer];
  double wait_seconds = has_agents() ? count_decisions(loaded) : 0;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    learned_[p] = {};
    const auto has_decisions = [p](const std::vector<double>& rank) { return rank[p] > 0; };
    if (has_agents() && std::ranges::none_of(all_decisions_, has_decisions)) continue;
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

// All ranks merge the moments of all ranks in the same order, so their normalizers stay equal.
std::int64_t ImpalaSeats::exchange(std::size_t buffer, const News& mine, std::size_t telling) {
  Telling& told = tellings_[telling];
  told.results.clear();
  if (mine.dropped) std::ranges::fill(learned_, std::span<const ImpalaNumbers>());
  for (std::size_t p = 0; p < map_.size(); ++p) told.grad_norms[p] = seats_[p].grad_norm;
  const auto take = [&](std::span<const double> results) {
    if (has_agents()) return take_results(results, told.results);
    take_results(results, moments_, normalizers_, told.results.episodes);
  };
  const std::int64_t new_samples = news_.exchange(
      {.new_samples = mine.new_samples,
       .policies = learned_,
       .results = mine.new_samples > 0 ? std::span<const double>(buffers_[buffer].results) : std::span<const double>()},
      told.numbers, std::cref(take));
  if (new_samples > 0) normalizers_.finish_merge();
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
    add_numbers(told.numbers[p], seat.sums);
    seat.sums.grad_norm += told.grad_norms[p];
  }
}

// The run's losses are the means over the trained policies; with one agent, its own.
void ImpalaSeats::add_to(RunReport& report) {
  reports_.clear();
  for (std::size_t p = 0; p < map_.size(); ++p) {
    Seat& seat = seats_[p];
    PolicyReport& its = reports_.emplace_back(PolicyReport{.name = map_[p].name,
                                                           .decisions = std::exchange(seat.decisions, 0),
                                                           .learning = {},
                                                           .episode_return_mean = seat.episodes.mean_return(),
                                                           .episode_length_mean = seat.episodes.mean_length(),
                                                           .episodes = seat.episodes.total()});
    if (!seat.learner) continue;
    const LearnReport sums = std::exchange(seat.sums, {});
    its.learning.emplace();
    take_means(sums, *its.learning);
    its.learning->minibatches = sums.minibatches;
    its.learning->grad_norm = sums.grad_norm / static_cast<double>(sums.minibatches);
    its.learning->learning_rate = report.learning.learning_rate;
    its.learning->entropy_coef = setup_.impala.entropy_coef;
  }
  const LearnReport mean = mean_of(reports_);
  take_losses(mean, report.learning);
  report.learning.grad_norm = mean.grad_norm;
  report_episodes(episodes_, report);
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
