#include "tandem/rl/algo/run_parts.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {
namespace {

constexpr const char* kMetric = "metric/";  // of each episode, in the part "run"

// The random stream of one of this rank's shards.
at::Generator& generator_of(learner::ReplicaTeam& team, int shard) {
  for (int local = 0; local < team.size(); ++local) {
    sync::Replica& replica = team.member(local).replica;
    const Range mine = replica.placement().mine;
    if (shard >= mine.begin && shard < mine.end) return replica.generator(shard);
  }
  TANDEM_CHECK(false, "shard ", shard, " of another rank");
}

}  // namespace

PolicyMap map_of(const RunSetup& setup, Spec& whole) {
  if (setup.agents) {
    const MultiAgentSpec agents = setup.agents->make_envs(1)->spec();
    whole = whole_spec(agents);
    return policy_map(agents, setup.agents->policies);
  }
  whole = setup.make_envs(1)->spec();
  if (whole.agents == 1) return {MappedPolicy{.name = "", .agents = {0}, .spec = whole}};
  throw ConfigError(concat(whole.id, " has ", whole.agents,
                           " agents in an environment, and the setup speaks of one; say whose policies there are "
                           "(RunSetup::agents)"));
}

std::vector<Normalizers> normalizers_of(const RunSetup& setup, const PolicyMap& map) {
  std::vector<Normalizers> all;
  for (const MappedPolicy& policy : map) all.emplace_back(policy.spec, setup.normalizer);
  return all;
}

std::vector<NormalizerMoments> moments_of(const RunSetup& setup, const PolicyMap& map) {
  std::vector<NormalizerMoments> all;
  for (const MappedPolicy& policy : map) all.emplace_back(policy.spec, setup.normalizer);
  return all;
}

std::uint64_t seed_of(const RunSetup& setup, std::size_t policy) {
  return setup.agents ? derive_seed(setup.seed, SeedPurpose::kPolicy, policy) : setup.seed;
}

std::shared_ptr<ActorCritic> build_policy(const RunSetup& setup, const PolicyMap& map, std::size_t policy) {
  // A fresh generator for each module: all copies of a policy begin with the same parameters.
  at::Generator generator =
      at::detail::createCPUGenerator(derive_seed(seed_of(setup, policy), SeedPurpose::kParameters, 0));
  if (!setup.agents) return setup.make_policy(map[policy].spec, generator);
  std::shared_ptr<ActorCritic> module = setup.agents->make_policy(map[policy], generator);
  if (!map[policy].trained) module->eval();
  return module;
}

std::vector<PolicySeat> policy_seats(const RunSetup& setup, const PolicyMap& map,
                                     std::span<const std::shared_ptr<ActorCritic>> policies, int envs, int group) {
  std::vector<PolicySeat> seats;
  for (std::size_t p = 0; p < map.size(); ++p) {
    ActorCritic& module = *policies[p];
    const auto rows = static_cast<std::int64_t>(map[p].agents.size()) * envs;
    seats.push_back({.agents = map[p].agents,
                     .spec = map[p].spec,
                     .actor = make_actor(module, setup.actor, rows, seed_of(setup, p), group),
                     .learns = map[p].trained});
  }
  return seats;
}

// Linux cuts thread names at 15 characters; three are left for a space and the replica's number.
std::string threads_of_policy(const std::string& name) { return name.substr(0, 12); }

PolicyNames::PolicyNames(const std::string& policy)
    : one_agent(policy.empty()),
      part(one_agent ? "state" : "policy-" + policy),
      progress(one_agent ? "run" : "progress-" + policy),
      target(one_agent ? "target" : "target-" + policy),
      generator(one_agent ? "generator" : "generator." + policy),
      normalizers(one_agent ? "normalizers" : "normalizers-" + policy),
      prefix(one_agent ? "" : policy + "/"),
      target_prefix(target + (one_agent ? "." : "/")),
      normalizer_prefix(prefix + "normalizer.") {}

bool remembers(const ActorCritic& policy) { return dynamic_cast<const RecurrentActorCritic*>(&policy) != nullptr; }

void require_sequences_for(bool any_remembers, bool has_sequences) {
  if (any_remembers == has_sequences) return;
  throw ConfigError(any_remembers
                        ? "the policy is recurrent, so the options must say how long its sequences are (sequences)"
                        : "the options say how long sequences are, but the policy is not recurrent");
}

std::string shard_part(int shard) { return concat("shard-", shard); }
std::string group_part(int group) { return concat("env-group-", group); }

bool keeps_normalizers(const RunSetup& setup) { return !setup.agents || setup.normalizer.any(); }

std::vector<std::string> part_names_of(const RunSetup& setup, const PolicyMap& map, bool has_targets, int groups) {
  std::vector<std::string> names{"run"};
  for (const MappedPolicy& policy : map) {
    const PolicyNames its(policy.name);
    names.push_back(its.part);
    if (!its.one_agent) names.push_back(its.progress);
    if (keeps_normalizers(setup)) names.push_back(its.normalizers);
    if (has_targets && policy.trained) names.push_back(its.target);
  }
  for (int shard = 0; shard < setup.shards; ++shard) names.push_back(shard_part(shard));
  for (int group = 0; group < groups; ++group) names.push_back(group_part(group));
  return names;
}

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

void report_metrics(const Spec& spec, const EpisodeWindow& episodes, RunReport& report) {
  for (std::size_t i = 0; i < spec.metrics.size(); ++i)
    report.metrics.push_back({.name = spec.metrics[i].name, .mean = episodes.mean_metric(i)});
}

model::NamedTensors run_part_of(const std::vector<std::int64_t>& counters, const EpisodeWindow& episodes,
                                const std::vector<Metric>& metrics) {
  std::vector<double> returns;
  std::vector<std::int64_t> lengths;
  for (const Episode& episode : episodes.episodes()) {
    returns.push_back(episode.episode_return);
    lengths.push_back(episode.length);
  }
  model::NamedTensors part{{"counters", at::tensor(counters, at::kLong)},
                           {"episode_return", at::tensor(returns, at::kDouble)},
                           {"episode_length", at::tensor(lengths, at::kLong)}};
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    std::vector<double> values;
    for (const Episode& episode : episodes.episodes()) values.push_back(episode.metrics.at(i));
    part.emplace_back(kMetric + metrics[i].name, at::tensor(values, at::kDouble));
  }
  return part;
}

// The number of counters tells a checkpoint of another kind of run.
std::vector<std::int64_t> counters_of(const model::NamedTensors& run, std::size_t count) {
  const at::Tensor counters = find(run, "counters", "run").contiguous();
  if (counters.numel() != static_cast<std::int64_t>(count)) {
    throw CheckpointError(concat("part 'run' has ", counters.numel(), " counters, expected ", count));
  }
  const auto* counter = counters.const_data_ptr<std::int64_t>();
  return {counter, counter + count};
}

// Returns, lengths and metrics are kept: step and row serve to order new episodes.
void restore_episodes(const model::NamedTensors& run, std::int64_t total, EpisodeWindow& episodes,
                      const std::vector<Metric>& metrics) {
  const at::Tensor returns = find(run, "episode_return", "run"), lengths = find(run, "episode_length", "run");
  std::vector<Episode> all;
  for (std::int64_t i = 0; i < std::min(returns.numel(), lengths.numel()); ++i) {
    all.push_back({.episode_return = returns.const_data_ptr<double>()[i],
                   .length = lengths.const_data_ptr<std::int64_t>()[i],
                   .metrics = std::vector<double>(metrics.size(), std::numeric_limits<double>::quiet_NaN())});
  }
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const std::string name = kMetric + metrics[m].name;
    const auto found = std::ranges::find(run, name, [](const auto& tensor) { return tensor.first; });
    if (found == run.end()) continue;
    const at::Tensor& values = found->second;
    if (values.scalar_type() != at::kDouble || values.numel() != static_cast<std::int64_t>(all.size()))
      throw CheckpointError(concat("part 'run' of the checkpoint has ", values.numel(), " values of ", name, " for ",
                                   all.size(), " episodes"));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].metrics[m] = values.const_data_ptr<double>()[i];
  }
  episodes.restore(std::move(all), total);
}

RolloutWorker::Resumed agreed(const learner::Ranks& ranks, RolloutWorker::Resumed mine) {
  auto last = static_cast<double>(mine);
  for (const std::vector<double>& rank : ranks.gather({last})) last = std::max(last, rank.front());
  return static_cast<RolloutWorker::Resumed>(last);
}

// All replicas have made the same passes.
std::int64_t PolicyState::passes() const {
  return team != nullptr ? static_cast<std::int64_t>(team->member(0).learner.passes()) : 0;
}

model::NamedTensors PolicyState::tensors() const {
  return team != nullptr ? team->state() : model::named_state_of(module);
}

std::string params_sha256_of(const std::vector<PolicyState>& policies) {
  model::NamedTensors all;
  for (const PolicyState& policy : policies)
    append(policy.names.prefix, model::named_parameters_of(policy.module), all);
  return model::bytes_sha256(all);
}

void append(const std::string& prefix, const model::NamedTensors& tensors, model::NamedTensors& all) {
  for (const auto& [name, tensor] : tensors) all.emplace_back(prefix + name, tensor);
}

void save_policies(const std::vector<PolicyState>& policies, const learner::Ranks& ranks, Range mine,
                   learner::StateParts& parts) {
  for (const PolicyState& policy : policies) {
    model::NamedTensors state = policy.tensors();  // of all ranks together
    if (!ranks.leads()) continue;
    parts.emplace_back(policy.names.part, std::move(state));
    if (policy.normalizers != nullptr) parts.emplace_back(policy.names.normalizers, policy.moments());
    if (policy.names.one_agent) continue;
    parts.emplace_back(policy.names.progress, run_part_of({policy.passes(), policy.episodes.total()}, policy.episodes));
  }
  for (int shard = mine.begin; shard < mine.end; ++shard) {
    model::NamedTensors& streams = parts.emplace_back(shard_part(shard), model::NamedTensors()).second;
    for (const PolicyState& policy : policies) {
      if (policy.team == nullptr) continue;
      streams.emplace_back(policy.names.generator, generator_of(*policy.team, shard).get_state());
    }
  }
}

model::NamedTensors copies_of(const model::NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  model::NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.detach().to(at::kCPU, tensor.scalar_type(), false, true));
  return copies;
}

void load_policy(const PolicyState& policy, std::int64_t passes, Range mine, const learner::StateParts& parts) {
  const PolicyNames& names = policy.names;
  if (!names.one_agent) {
    const model::NamedTensors& progress = learner::part_of(parts, names.progress);
    const std::vector<std::int64_t> counters = counters_of(progress, 2);
    passes = counters[0];
    restore_episodes(progress, counters[1], policy.episodes);
  }
  if (policy.normalizers != nullptr) policy.normalizers->load(learner::part_of(parts, names.normalizers));
  const model::NamedTensors& state = learner::part_of(parts, names.part);
  if (policy.team == nullptr) return model::copy_named(state, model::named_state_of(policy.module));
  policy.team->load_state(state);
  policy.team->set_passes(static_cast<std::uint64_t>(passes));
  for (int shard = mine.begin; shard < mine.end; ++shard) {
    const std::string streams = shard_part(shard);
    generator_of(*policy.team, shard).set_state(find(learner::part_of(parts, streams), names.generator, streams));
  }
}

void add_work(const std::vector<learner::ReplicaTeam::Work>& its, std::vector<learner::ReplicaTeam::Work>& all) {
  if (all.empty()) {
    all = its;
    return;
  }
  for (std::size_t i = 0; i < its.size(); ++i) {
    all[i].rows += its[i].rows;
    all[i].cpu_seconds += its[i].cpu_seconds;
    all[i].staleness.offered += its[i].staleness.offered;
    all[i].staleness.wait_seconds += its[i].staleness.wait_seconds;
  }
}

// Figures are averaged and times are added, since the policies learn one after the other.
LearnReport mean_of(const std::vector<PolicyReport>& policies) {
  constexpr std::array kMeans{&LearnReport::grad_norm,  &LearnReport::explained_variance, &LearnReport::learning_rate,
                              &LearnReport::clip_range, &LearnReport::entropy_coef,       &LearnReport::kl_coef};
  LearnReport mean;
  double trained = 0;
  for (const PolicyReport& policy : policies) {
    if (!policy.learning || policy.learning->minibatches == 0) continue;
    ++trained;
    mean.minibatches += policy.learning->minibatches;
    mean += *policy.learning;
    for (const auto field : kMeans) mean.*field += *policy.learning.*field;
    for (const auto field : {&LearnReport::load_seconds, &LearnReport::learn_seconds, &LearnReport::sync_seconds})
      mean.*field += *policy.learning.*field;
  }
  mean /= trained;
  for (const auto field : kMeans) mean.*field /= trained;
  return mean;
}

void append_gradients(const std::string& policy, const std::string& sentence, std::string& text) {
  if (text.empty()) text = sentence;
  if (sentence != text) text += concat("; of policy ", policy, ": ", sentence);
}

}  // namespace tandem::rl
