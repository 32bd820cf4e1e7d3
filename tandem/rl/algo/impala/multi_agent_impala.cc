#include "tandem/rl/algo/impala/multi_agent_impala.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/rl/algo/agent_policies.h"
#include "tandem/rl/algo/policy_reports.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

constexpr std::size_t kMostExpectedEpisodes = 4096;  // of a batch

}  // namespace

MultiAgentImpala::MultiAgentImpala(const ImpalaSetup& setup, const ImpalaMemory& memory, Clock::duration patience)
    : setup_(setup),
      agents_(setup_.agents->make_envs(1)->spec()),
      map_(policy_map(agents_, setup_.agents->policies)),
      spec_(whole_spec(agents_)),
      ranks_(setup_.ranks.with_patience(patience)),
      seats_(map_.size()),
      own_decisions_(map_.size()),
      learned_(map_.size()) {
  build_seats(patience);
  news_ = std::make_unique<StepNews>(setup_.ranks, map_.size());
  behaviour_ = std::make_unique<pipeline::Published<std::vector<Weights>>>(setup_.impala.workers, [this] {
    std::vector<Weights> copies;
    for (const Seat& seat : seats_) {
      if (seat.learner) copies.push_back(copies_of(seat.learner->weights()));
    }
    return copies;
  });
  for (int worker = 0; worker < setup_.impala.workers; ++worker) build_sampler(worker);
  build_memory(memory);
}

MultiAgentImpala::~MultiAgentImpala() = default;

// The same parameters for each.
std::shared_ptr<ActorCritic> MultiAgentImpala::build_policy(std::size_t policy) const {
  return make_mapped_policy(setup_.agents->make_policy, map_[policy], seed_of_policy(setup_.seed, policy));
}

void MultiAgentImpala::build_seats(Clock::duration patience) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (!map_[p].trained) {
      seats_[p].frozen = build_policy(p);
      continue;
    }
    seats_[p].learner = std::make_unique<ImpalaLearner>(setup_,
                                                        LearnedPolicy{.build = [this, p] { return build_policy(p); },
                                                                      .seed = seed_of_policy(setup_.seed, p),
                                                                      .threads = threads_of_policy(map_[p].name),
                                                                      .batches = BatchesOf::kDecisions},
                                                        patience);
  }
}

void MultiAgentImpala::build_sampler(int worker) {
  const int envs = setup_.impala.num_envs / setup_.impala.workers / setup_.shards;
  std::vector<std::shared_ptr<ActorCritic>> policies;
  std::vector<bool> trained;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    policies.push_back(build_policy(p));
    trained.push_back(map_[p].trained);
  }
  const MultiAgentRolloutOptions options{
      .steps = setup_.impala.rollout_steps, .gamma = setup_.impala.gamma, .time_limit = setup_.impala.time_limit};
  std::vector<std::unique_ptr<MultiAgentWorker>> groups;
  for (int shard = shards().begin; shard < shards().end; ++shard) {
    const int number = group_number(worker, shard);
    groups.push_back(std::make_unique<MultiAgentWorker>(
        setup_.agents->make_envs(envs), policy_seats(map_, policies, setup_.actor, envs, setup_.seed, number), options,
        number * envs));
    groups.back()->reset(setup_.seed);
  }
  samplers_.push_back(std::make_unique<AgentsSampler>(std::move(policies), std::move(trained), std::move(groups)));
}

// Of `agents` in each environment of a batch, so that memory for them seldom grows.
std::size_t MultiAgentImpala::expected_episodes(std::size_t agents) const {
  const ImpalaOptions& impala = setup_.impala;
  const auto envs = static_cast<std::size_t>(impala.num_envs / impala.workers);
  const auto most_of_each = static_cast<std::size_t>(impala.rollout_steps) / 2 + 1;
  return std::min(envs * most_of_each * agents, kMostExpectedEpisodes);
}

void MultiAgentImpala::build_memory(const ImpalaMemory& memory) {
  std::size_t expected_results = expected_episodes(1);
  for (const MappedPolicy& policy : map_) expected_results += expected_episodes(policy.agents.size());
  expected_results = 4 * expected_results + static_cast<std::size_t>(shards().size()) * (1 + 2 * map_.size());
  for (std::size_t i = 0; i < memory.slots; ++i) {
    queued_.push_back(samplers_.front()->make_slot());
    queued_.back().results.reserve(expected_results);
  }
  for (std::size_t i = 0; i < memory.buffers; ++i) {
    Loaded& loaded = buffers_.emplace_back();
    loaded.results.reserve(expected_results);
    loaded.decisions.resize(map_.size());
    loaded.batches.resize(map_.size());
    for (std::size_t p = 0; p < map_.size(); ++p) {
      if (!map_[p].trained) continue;
      const std::vector<c10::Device>& devices = seats_[p].learner->shard_devices();
      for (std::size_t shard = 0; shard < devices.size(); ++shard)
        loaded.decisions[p].emplace_back(*queued_.front().groups[shard][p], devices[shard]);
      loaded.batches[p].resize(devices.size());
    }
  }
  tellings_.resize(memory.tellings);
  for (Telling& telling : tellings_) {
    telling.results.episodes.reserve(expected_episodes(1));
    telling.results.policies.resize(map_.size());
    for (std::size_t p = 0; p < map_.size(); ++p)
      telling.results.policies[p].episodes.reserve(expected_episodes(map_[p].agents.size()));
    telling.numbers.resize(map_.size());
    telling.grad_norms.resize(map_.size());
  }
}

ImpalaLearner& MultiAgentImpala::any_learner() const {
  return *std::ranges::find_if(seats_, [](const Seat& seat) { return seat.learner != nullptr; })->learner;
}

const ActorCritic& MultiAgentImpala::policy(std::size_t policy) const {
  return seats_[policy].learner ? seats_[policy].learner->policy() : *seats_[policy].frozen;
}

std::string MultiAgentImpala::gradients_by() const {
  std::vector<GradientsOfPolicy> policies;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (seats_[p].learner) policies.push_back({map_[p].name, seats_[p].learner->gradients_by()});
  }
  return rl::gradients_by(policies);
}

std::int64_t MultiAgentImpala::collect(int worker, std::size_t slot) {
  return samplers_[static_cast<std::size_t>(worker)]->collect(*behaviour_, queued_[slot]);
}

void MultiAgentImpala::load_batch(std::size_t slot, std::size_t buffer) {
  const QueuedDecisions& queued = queued_[slot];
  Loaded& loaded = buffers_[buffer];
  for (std::size_t p = 0; p < map_.size(); ++p) {
    for (std::size_t shard = 0; shard < loaded.decisions[p].size(); ++shard) {
      loaded.decisions[p][shard].copy_from(*queued.groups[shard][p]);
      loaded.batches[p][shard] = loaded.decisions[p][shard].batch();
    }
  }
  loaded.results = queued.results;
}

// All ranks make the same steps, so that all must know of whom nobody has a decision. Returns the wait for the others,
// who may have no batch yet.
double MultiAgentImpala::count_decisions(const Loaded& loaded) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    own_decisions_[p] = 0;
    for (const DecisionTrajectory& shard : loaded.decisions[p])
      own_decisions_[p] += static_cast<double>(shard.decisions());
  }
  const Clock::time_point begun = Clock::now();
  ranks_.gather(own_decisions_, all_decisions_);
  return ranks_.size() > 1 ? seconds_since(begun) : 0;
}

ImpalaWork::Step MultiAgentImpala::step(std::size_t buffer, double lr_factor) {
  Loaded& loaded = buffers_[buffer];
  Step all{.grad_norm = 0, .wait_seconds = count_decisions(loaded)};
  for (std::size_t p = 0; p < map_.size(); ++p) {
    learned_[p] = {};
    const auto of_policy = [p](const std::vector<double>& rank) { return rank[p] > 0; };
    if (std::ranges::none_of(all_decisions_, of_policy)) continue;
    const ImpalaLearner::Step made = seats_[p].learner->step(loaded.batches[p], lr_factor);
    learned_[p] = made.shards;
    seats_[p].grad_norm = made.grad_norm;
    all.wait_seconds += made.wait_seconds;
  }
  return all;
}

void MultiAgentImpala::renew_targets() {
  for (const Seat& seat : seats_) {
    if (seat.learner) seat.learner->renew_targets();
  }
}

std::int64_t MultiAgentImpala::exchange(std::size_t buffer, const News& mine, std::size_t telling) {
  Telling& told = tellings_[telling];
  told.results.clear();
  if (mine.dropped) std::ranges::fill(learned_, std::span<const ImpalaNumbers>());
  for (std::size_t p = 0; p < map_.size(); ++p) told.grad_norms[p] = seats_[p].grad_norm;
  const auto take = [&](std::span<const double> results) { take_results(results, told.results); };
  return news_->exchange(
      {.new_samples = mine.new_samples,
       .policies = learned_,
       .results = mine.new_samples > 0 ? std::span<const double>(buffers_[buffer].results) : std::span<const double>()},
      told.numbers, std::cref(take));
}

void MultiAgentImpala::publish(std::int64_t version) {
  behaviour_->publish(version, [this](std::vector<Weights>& copies) {
    std::size_t next = 0;
    for (const Seat& seat : seats_) {
      if (seat.learner) copy_weights(seat.learner->weights(), copies[next++]);
    }
  });
}

void MultiAgentImpala::forget() {
  for (const auto& sampler : samplers_) sampler->forget();
}

void MultiAgentImpala::account(std::size_t telling, bool dropped) {
  Telling& told = tellings_[telling];
  episodes_.add(told.results.episodes);
  for (std::size_t p = 0; p < map_.size(); ++p) {
    Seat& seat = seats_[p];
    seat.episodes.add(told.results.policies[p].episodes);
    if (dropped || told.numbers[p].rows == 0) continue;
    seat.decisions += told.results.policies[p].decisions;
    add_numbers(told.numbers[p], seat.sums);
    seat.sums.grad_norm += told.grad_norms[p];
  }
}

void MultiAgentImpala::add_to(RunReport& report) {
  report.policies.reserve(map_.size());
  for (std::size_t p = 0; p < map_.size(); ++p) {
    Seat& seat = seats_[p];
    PolicyReport& its = report.policies.emplace_back(PolicyReport{.name = map_[p].name,
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
  const LearnReport mean = mean_of(report.policies);
  take_losses(mean, report.learning);
  report.learning.grad_norm = mean.grad_norm;
  report_episodes(episodes_, report);
}

std::vector<learner::ReplicaTeam::Work> MultiAgentImpala::work() const {
  std::vector<learner::ReplicaTeam::Work> all;
  for (const Seat& seat : seats_) {
    if (seat.learner) add_work(seat.learner->team().work(), all);
  }
  return all;
}

}  // namespace tandem::rl
