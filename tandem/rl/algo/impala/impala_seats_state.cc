// The state of ImpalaSeats: hashes and checkpoints. The pipeline rests while these functions run.
#include <ATen/ATen.h>

#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/agent_policies.h"
#include "tandem/rl/algo/impala/impala_seats.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

constexpr const char* kNormalizers = "normalizers";  // part of a checkpoint, with one agent

void append(const std::string& prefix, const model::NamedTensors& tensors, model::NamedTensors& all) {
  for (const auto& [name, tensor] : tensors) all.emplace_back(prefix + name, tensor);
}

}  // namespace

// The names are kept from when one agent and several were two kinds of runs, so that checkpoints and hashes stay valid.
struct ImpalaSeats::Names {
  std::string prefix, target_prefix;  // of tensors that are hashed
  std::string part, target_part;      // of a checkpoint
  std::string generator;              // in a shard's part
};

ImpalaSeats::Names ImpalaSeats::names_of(std::size_t policy) const {
  if (!has_agents())
    return {
        .prefix = "", .target_prefix = "target.", .part = "state", .target_part = "target", .generator = "generator"};
  const std::string& name = map_[policy].name;
  return {.prefix = name + "/",
          .target_prefix = concat("target-", name, "/"),
          .part = policy_part(name),
          .target_part = "target-" + name,
          .generator = generator_name(name)};
}

std::string ImpalaSeats::params_sha256() {
  model::NamedTensors all;
  for (const Seat& seat : seats_) append("", model::named_parameters_of(seat.policy()), all);
  return model::bytes_sha256(all);
}

std::string ImpalaSeats::state_sha256() {
  model::NamedTensors all;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    append(names_of(p).prefix, state_of(seats_[p]), all);
    if (seats_[p].learner) append(names_of(p).target_prefix, seats_[p].learner->target(), all);
  }
  if (!has_agents()) append("normalizer.", normalizers_.state(), all);
  return model::state_sha256(std::move(all));
}

// Collective where the policy is trained.
model::NamedTensors ImpalaSeats::state_of(const Seat& seat) const {
  return seat.learner ? seat.learner->team().state() : model::named_state_of(*seat.frozen);
}

// Parts of all ranks are listed, since the leader reads them for all.
std::vector<std::string> ImpalaSeats::part_names() const {
  std::vector<std::string> names;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    names.push_back(names_of(p).part);
    if (has_agents()) names.push_back(progress_part(map_[p].name));
    if (map_[p].trained && setup_.appo) names.push_back(names_of(p).target_part);
  }
  if (!has_agents()) names.emplace_back(kNormalizers);
  for (int shard = 0; shard < setup_.shards; ++shard) names.push_back(shard_part(shard));
  const int groups = setup_.impala.workers * setup_.shards * setup_.impala.splits;
  for (int group = 0; group < groups; ++group) names.push_back(group_part(group));
  return names;
}

// Collective: every rank takes part in gathering the state of each trained policy, and the leader writes what all ranks
// have in common. Each rank writes the shards and env groups that it has.
void ImpalaSeats::save(learner::StateParts& parts) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    const Seat& seat = seats_[p];
    const Names names = names_of(p);
    model::NamedTensors state = state_of(seat);
    if (!setup_.ranks.leads()) continue;
    parts.emplace_back(names.part, std::move(state));
    if (has_agents()) {
      const auto passes = seat.learner ? static_cast<std::int64_t>(seat.learner->passes()) : 0;
      parts.emplace_back(progress_part(map_[p].name), run_part_of({passes, seat.episodes.total()}, seat.episodes));
    }
    if (seat.learner && setup_.appo) parts.emplace_back(names.target_part, seat.learner->target());
  }
  if (!has_agents() && setup_.ranks.leads()) parts.emplace_back(kNormalizers, normalizers_.state());
  for (int shard = shards().begin; shard < shards().end; ++shard) {
    model::NamedTensors generators;
    for (std::size_t p = 0; p < map_.size(); ++p) {
      if (!seats_[p].learner) continue;
      generators.emplace_back(names_of(p).generator, seats_[p].learner->generator(shard).get_state());
    }
    parts.emplace_back(shard_part(shard), std::move(generators));
  }
  for (int worker = 0; worker < setup_.impala.workers; ++worker)
    samplers_[index_of(worker)]->save(group_numbers(worker).begin, parts);
}

void ImpalaSeats::check_first_group(const model::NamedTensors& first_group) const {
  if (has_agents()) return;  // earlier builds had none
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

// A policy that is not trained goes to the samplers here; trained ones get their weights with the next publish().
void ImpalaSeats::load_policy(std::size_t policy, const learner::StateParts& parts, const Before& before) {
  Seat& seat = seats_[policy];
  const Names names = names_of(policy);
  const model::NamedTensors& state = learner::part_of(parts, names.part);
  std::uint64_t passes = before.passes;
  if (has_agents()) {
    const model::NamedTensors& progress = learner::part_of(parts, progress_part(map_[policy].name));
    const std::vector<std::int64_t> counters = counters_of(progress, 2);
    restore_episodes(progress, counters[1], seat.episodes);
    passes = static_cast<std::uint64_t>(counters[0]);
  }
  if (!seat.learner) {
    model::copy_named(state, model::named_state_of(*seat.frozen));
    for (const auto& sampler : samplers_) model::copy_named(state, model::named_state_of(sampler->policy(policy)));
    return;
  }
  seat.learner->team().set_passes(passes);
  seat.learner->team().load_state(state);
  if (setup_.appo) seat.learner->load_target(learner::part_of(parts, names.target_part));
  for (int shard = shards().begin; shard < shards().end; ++shard) {
    const std::string streams = shard_part(shard);
    seat.learner->generator(shard).set_state(find(learner::part_of(parts, streams), names.generator, streams));
  }
}

RolloutWorker::Resumed ImpalaSeats::load(const learner::StateParts& parts, const Before& before) {
  restore_episodes(before.run, before.episodes, episodes_);
  for (std::size_t p = 0; p < map_.size(); ++p) load_policy(p, parts, before);
  if (!has_agents()) normalizers_.load(learner::part_of(parts, kNormalizers));
  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    if (samplers_[index_of(worker)]->load(parts, group_numbers(worker).begin, before.seed_of_new_episodes) !=
        RolloutWorker::Resumed::kExactly)
      resumed = RolloutWorker::Resumed::kWithNewEpisodes;
  }
  return resumed;
}

}  // namespace tandem::rl
