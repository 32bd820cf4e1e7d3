#include "tandem/rl/algo/ppo_run.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/model/named_copy.h"
#include "tandem/rl/rollout/gae.h"

namespace tandem::rl {
namespace {

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

at::Tensor tensor_of(const std::vector<std::byte>& bytes) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

const at::Tensor& find(const model::NamedTensors& tensors, const std::string& name, const std::string& part) {
  for (const auto& [other, tensor] : tensors) {
    if (other == name) return tensor;
  }
  throw CheckpointError(concat("part '", part, "' of the checkpoint has no '", name, "'"));
}

std::string shard_part(std::size_t shard) { return concat("shard-", shard); }
std::string group_part(std::size_t group) { return concat("env-group-", group); }

PpoSetup checked(PpoSetup setup) {
  std::vector<std::string> faults = faults_of(setup.ppo, setup.shards);
  if (setup.total_steps < 1) faults.push_back(concat("total_steps is ", setup.total_steps, "; it must be at least 1"));
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return setup;
}

learner::TeamOptions team_options(const PpoSetup& setup) {
  return {.run_seed = setup.seed,
          .rng = setup.rng,
          .optimizer = {model::AdamOptions{.lr = setup.ppo.learning_rate, .eps = setup.ppo.adam_eps}},
          .flat = {},
          .replicated = {.max_grad_norm = setup.ppo.max_grad_norm, .divisor = sync::Divisor::kTotal},
          .patience = std::chrono::minutes(5)};
}

}  // namespace

PpoRun::PpoRun(PpoSetup setup)
    : setup_(checked(std::move(setup))),
      spec_(setup_.make_envs(1)->spec()),
      normalizers_(spec_, setup_.normalizer),
      policies_(setup_.devices.size()),
      workers_(static_cast<std::size_t>(setup_.shards)),
      ppo_(setup_.devices.size()) {
  if (spec_.agents != 1) {
    throw ConfigError(concat(spec_.id, " has ", spec_.agents, " agents in an environment; PPO trains one"));
  }
  // Environments and policies are made one after the other: a user's factories need not be thread-safe.
  for (std::size_t replica = 0; replica < policies_.size(); ++replica) {
    at::Generator generator = at::detail::createCPUGenerator(derive_seed(setup_.seed, SeedPurpose::kParameters, 0));
    policies_[replica] = setup_.make_policy(spec_, generator);
    policies_[replica]->to(setup_.devices[replica]);
  }
  const std::vector<sync::Placement> placements = sync::place_replicas(setup_.devices, setup_.shards);
  for (const sync::Placement& placement : placements) {
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) build_worker(shard, placement.replica);
  }
  team_ = std::make_unique<learner::ReplicaTeam>(
      placements, team_options(setup_),
      [this](const sync::Placement& placement) { return policies_[static_cast<std::size_t>(placement.replica)]; });
  for (int replica = 0; replica < team_->size(); ++replica) {
    const auto index = static_cast<std::size_t>(replica);
    ppo_[index] = std::make_unique<Ppo>(team_->member(replica), *policies_[index], setup_.ppo);
  }
}

PpoRun::~PpoRun() = default;

void PpoRun::build_worker(int shard, int replica) {
  const int envs = setup_.ppo.num_envs / setup_.shards;
  ActorCritic& policy = *policies_[static_cast<std::size_t>(replica)];
  const RolloutOptions options{.steps = setup_.ppo.rollout_steps,
                               .gamma = setup_.ppo.gamma,
                               .time_limit = setup_.ppo.time_limit,
                               .family = policy.family(),
                               .normalizer = setup_.normalizer};
  std::unique_ptr<EnvGroup> group = setup_.make_envs(envs);
  std::unique_ptr<Actor> actor = make_actor(policy, setup_.actor, group->size() * spec_.agents, setup_.seed, shard);
  auto& worker = workers_[static_cast<std::size_t>(shard)];
  worker = std::make_unique<RolloutWorker>(std::move(group), std::move(actor), options, shard * envs);
  worker->reset(setup_.seed);
}

RunReport PpoRun::update() {
  std::vector<RunReport> reports(ppo_.size());
  team_->run([&](learner::Member& member) {
    collect_and_learn(member, reports[static_cast<std::size_t>(member.replica.placement().replica)]);
  });
  finish_update();
  RunReport report = reports.front();
  for (const RunReport& other : reports) {
    report.sample_seconds = std::max(report.sample_seconds, other.sample_seconds);
    report.ppo.load_seconds = std::max(report.ppo.load_seconds, other.ppo.load_seconds);
    report.ppo.learn_seconds = std::max(report.ppo.learn_seconds, other.ppo.learn_seconds);
    report.ppo.sync_seconds = std::max(report.ppo.sync_seconds, other.ppo.sync_seconds);
  }
  report.episode_return_mean = episodes_.mean_return();
  report.episode_length_mean = episodes_.mean_length();
  report.episodes = episodes_.total();
  return report;
}

void PpoRun::collect_and_learn(learner::Member& member, RunReport& report) {
  const Clock::time_point start = Clock::now();
  std::vector<Fragment*> fragments;
  const Range mine = member.replica.placement().mine;
  for (int shard = mine.begin; shard < mine.end; ++shard) {
    RolloutWorker& worker = *workers_[static_cast<std::size_t>(shard)];
    worker.collect(normalizers_);
    compute_gae(worker.fragment(), setup_.ppo.gamma, setup_.ppo.gae_lambda);
    fragments.push_back(&worker.fragment());
  }
  report.sample_seconds = seconds_since(start);
  const double progress = static_cast<double>(env_steps_) / static_cast<double>(setup_.total_steps);
  Ppo& ppo = *ppo_[static_cast<std::size_t>(member.replica.placement().replica)];
  report.ppo = ppo.update(fragments, progress, {.deadline = Deadline::after(std::chrono::minutes(5)), .stop = {}});
}

// What belongs to the whole run, after all replicas are done: in the order of the groups, on one thread.
void PpoRun::finish_update() {
  std::vector<Episode> episodes;
  for (const auto& worker : workers_) {
    const std::vector<Episode> finished = worker->episodes().take_finished();
    episodes.insert(episodes.end(), finished.begin(), finished.end());
    normalizers_.merge(worker->moments());
  }
  episodes_.add(std::move(episodes));
  normalizers_.finish_merge();
  ++updates_;
  env_steps_ += setup_.ppo.batch_rows();
}

std::string PpoRun::params_sha256() {
  model::NamedTensors parameters;
  for (const auto& entry : policy().named_parameters()) parameters.emplace_back(entry.key(), entry.value().detach());
  return model::bytes_sha256(parameters);
}

std::string PpoRun::state_sha256() {
  model::NamedTensors state = team_->member(0).replica.named_state();
  for (const auto& [name, tensor] : normalizers_.state()) state.emplace_back("normalizer." + name, tensor);
  return model::state_sha256(std::move(state));
}

std::vector<PpoRun::ReplicaWork> PpoRun::work() const {
  std::vector<ReplicaWork> all;
  for (int replica = 0; replica < team_->size(); ++replica) {
    all.push_back({.rows = team_->member(replica).learner.rows_trained(), .cpu_seconds = team_->cpu_seconds(replica)});
  }
  return all;
}

PpoRun::Parts PpoRun::save() {
  Parts parts;
  sync::Replica& replica = team_->member(0).replica;
  parts.emplace_back("state", replica.named_state());
  parts.emplace_back("normalizers", normalizers_.state());

  std::vector<double> returns;
  std::vector<std::int64_t> lengths;
  for (const Episode& episode : episodes_.episodes()) {
    returns.push_back(episode.episode_return);
    lengths.push_back(episode.length);
  }
  const auto passes = static_cast<std::int64_t>(team_->member(0).learner.passes());
  parts.emplace_back(
      "run", model::NamedTensors{{"counters", at::tensor({updates_, env_steps_, passes, episodes_.total()}, at::kLong)},
                                 {"episode_return", at::tensor(returns, at::kDouble)},
                                 {"episode_length", at::tensor(lengths, at::kLong)}});
  for (int r = 0; r < team_->size(); ++r) {
    const Range mine = team_->member(r).replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) {
      at::Generator& generator = team_->member(r).replica.generator(shard);
      parts.emplace_back(shard_part(static_cast<std::size_t>(shard)),
                         model::NamedTensors{{"generator", generator.get_state()}});
    }
  }
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    parts.emplace_back(group_part(group), model::NamedTensors{{"state", tensor_of(workers_[group]->save())}});
  }
  return parts;
}

RolloutWorker::Resumed PpoRun::load(const std::function<model::NamedTensors(const std::string& part)>& read_part) {
  const model::NamedTensors state = read_part("state");
  normalizers_.load(read_part("normalizers"));
  const model::NamedTensors run = read_part("run");
  const at::Tensor counters = find(run, "counters", "run");
  if (counters.numel() != 4)
    throw CheckpointError(concat("part 'run' has ", counters.numel(), " counters, expected 4"));
  const auto* counter = counters.const_data_ptr<std::int64_t>();
  updates_ = counter[0];
  env_steps_ = counter[1];
  const at::Tensor returns = find(run, "episode_return", "run"), lengths = find(run, "episode_length", "run");
  std::vector<Episode> episodes;
  for (std::int64_t i = 0; i < std::min(returns.numel(), lengths.numel()); ++i) {
    episodes.push_back(
        {.episode_return = returns.const_data_ptr<double>()[i], .length = lengths.const_data_ptr<std::int64_t>()[i]});
  }
  episodes_.restore(std::move(episodes), counter[3]);

  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (int r = 0; r < team_->size(); ++r) {
    learner::Member member = team_->member(r);
    model::copy_named(state, member.replica.named_state());
    member.replica.optimizer().state_changed();
    member.learner.set_passes(static_cast<std::uint64_t>(counter[2]));
    const Range mine = member.replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) {
      const std::string part = shard_part(static_cast<std::size_t>(shard));
      member.replica.generator(shard).set_state(find(read_part(part), "generator", part));
    }
  }
  for (std::size_t group = 0; group < workers_.size(); ++group) {
    const std::string part = group_part(group);
    const at::Tensor bytes = find(read_part(part), "state", part).contiguous();
    // New episodes, where they must be, are others than those of the run's beginning.
    const std::uint64_t seed =
        derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
    if (workers_[group]->load(bytes_of(bytes), seed) != RolloutWorker::Resumed::kExactly)
      resumed = RolloutWorker::Resumed::kWithNewEpisodes;
  }
  return resumed;
}

}  // namespace tandem::rl
