// The state of a MultiAgentImpala: what is hashed, and what a checkpoint holds.
#include <ATen/ATen.h>

#include "tandem/model/files/named_copy.h"
#include "tandem/rl/algo/agent_policies.h"
#include "tandem/rl/algo/impala/multi_agent_impala.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

std::string target_part(const std::string& policy) { return "target-" + policy; }

}  // namespace

std::string MultiAgentImpala::params_sha256() {
  model::NamedTensors all;
  for (std::size_t p = 0; p < map_.size(); ++p) append_under(map_[p].name, model::named_parameters_of(policy(p)), all);
  return model::bytes_sha256(all);
}

std::string MultiAgentImpala::state_sha256() {
  model::NamedTensors all;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    append_under(map_[p].name, state_of(p), all);
    if (seats_[p].learner && setup_.appo) append_under(target_part(map_[p].name), seats_[p].learner->target(), all);
  }
  return model::state_sha256(std::move(all));
}

// Collective where the policy is trained.
model::NamedTensors MultiAgentImpala::state_of(std::size_t policy) const {
  const Seat& seat = seats_[policy];
  return seat.learner ? seat.learner->team().state() : model::named_state_of(*seat.frozen);
}

std::vector<std::string> MultiAgentImpala::part_names() const {
  std::vector<std::string> names;
  for (const MappedPolicy& policy : map_) {
    names.push_back(policy_part(policy.name));
    names.push_back(progress_part(policy.name));
    if (policy.trained && setup_.appo) names.push_back(target_part(policy.name));
  }
  for (int shard = 0; shard < setup_.shards; ++shard) names.push_back(shard_part(shard));
  for (int group = 0; group < setup_.impala.workers * setup_.shards; ++group) names.push_back(group_part(group));
  return names;
}

void MultiAgentImpala::save(learner::StateParts& parts) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    const Seat& seat = seats_[p];
    model::NamedTensors state = state_of(p);
    if (!setup_.ranks.leads()) continue;
    parts.emplace_back(policy_part(map_[p].name), std::move(state));
    const auto passes = seat.learner ? static_cast<std::int64_t>(seat.learner->passes()) : 0;
    parts.emplace_back(progress_part(map_[p].name), run_part_of({passes, seat.episodes.total()}, seat.episodes));
    if (seat.learner && setup_.appo) parts.emplace_back(target_part(map_[p].name), seat.learner->target());
  }
  for (int shard = shards().begin; shard < shards().end; ++shard) {
    model::NamedTensors generators;
    for (std::size_t p = 0; p < map_.size(); ++p) {
      if (!seats_[p].learner) continue;
      generators.emplace_back(generator_name(map_[p].name), seats_[p].learner->generator(shard).get_state());
    }
    parts.emplace_back(shard_part(shard), std::move(generators));
  }
  for (int worker = 0; worker < setup_.impala.workers; ++worker)
    save_groups(samplers_[static_cast<std::size_t>(worker)]->groups(), group_number(worker, shards().begin), parts);
}

void MultiAgentImpala::load_policy(std::size_t policy, const learner::StateParts& parts) {
  Seat& seat = seats_[policy];
  const std::string& name = map_[policy].name;
  const model::NamedTensors& state = learner::part_of(parts, policy_part(name));
  if (seat.learner) {
    seat.learner->team().load_state(state);
    if (setup_.appo) seat.learner->load_target(learner::part_of(parts, target_part(name)));
  } else {
    model::copy_named(state, model::named_state_of(*seat.frozen));
    for (const auto& sampler : samplers_) model::copy_named(state, model::named_state_of(sampler->policy(policy)));
  }
  const model::NamedTensors& progress = learner::part_of(parts, progress_part(name));
  const std::vector<std::int64_t> counters = counters_of(progress, 2);
  restore_episodes(progress, counters[1], seat.episodes);
  if (seat.learner) seat.learner->team().set_passes(static_cast<std::uint64_t>(counters[0]));
}

RolloutWorker::Resumed MultiAgentImpala::load(const learner::StateParts& parts, const Before& before) {
  restore_episodes(before.run, before.episodes, episodes_);
  for (std::size_t p = 0; p < map_.size(); ++p) load_policy(p, parts);
  for (int shard = shards().begin; shard < shards().end; ++shard) {
    const std::string streams = shard_part(shard);
    for (std::size_t p = 0; p < map_.size(); ++p) {
      if (!seats_[p].learner) continue;
      const model::NamedTensors& part = learner::part_of(parts, streams);
      seats_[p].learner->generator(shard).set_state(find(part, generator_name(map_[p].name), streams));
    }
  }
  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    if (load_groups(parts, samplers_[static_cast<std::size_t>(worker)]->groups(), group_number(worker, shards().begin),
                    before.seed_of_new_episodes) != RolloutWorker::Resumed::kExactly)
      resumed = RolloutWorker::Resumed::kWithNewEpisodes;
  }
  return resumed;
}

}  // namespace tandem::rl
