// The state of ImpalaSeats: hashes and checkpoints. The pipeline rests while these functions run.
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/impala/impala_seats.h"

namespace tandem::rl {
std::vector<PolicyState> ImpalaSeats::policy_states() {
  std::vector<PolicyState> states;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    Seat& seat = seats_[p];
    states.push_back(
        {PolicyNames(map_[p].name), seat.learner ? &seat.learner->team() : nullptr, seat.policy(), seat.episodes});
  }
  return states;
}

std::string ImpalaSeats::params_sha256() { return params_sha256_of(policy_states()); }

std::string ImpalaSeats::state_sha256() {
  model::NamedTensors all;
  const std::vector<PolicyState> policies = policy_states();
  for (std::size_t p = 0; p < policies.size(); ++p) {
    append(policies[p].names.prefix, policies[p].tensors(), all);
    if (seats_[p].learner) append(policies[p].names.target_prefix, seats_[p].learner->target(), all);
  }
  if (!has_agents()) append("normalizer.", normalizers_.state(), all);
  return model::state_sha256(std::move(all));
}

// Parts of all ranks are listed, since the leader reads them for all.
std::vector<std::string> ImpalaSeats::part_names() const {
  std::vector<std::string> names;
  for (const MappedPolicy& policy : map_) {
    const PolicyNames its(policy.name);
    names.push_back(its.part);
    if (has_agents()) names.push_back(its.progress);
    if (policy.trained && setup_.appo) names.push_back(its.target);
  }
  if (!has_agents()) names.emplace_back(kNormalizers);
  for (int shard = 0; shard < setup_.shards; ++shard) names.push_back(shard_part(shard));
  const int groups = setup_.impala.workers * setup_.shards * setup_.impala.splits;
  for (int group = 0; group < groups; ++group) names.push_back(group_part(group));
  return names;
}

// The leader writes what all ranks have in common. Each rank writes the shards and env groups that it has.
void ImpalaSeats::save(learner::StateParts& parts) {
  const std::vector<PolicyState> policies = policy_states();
  save_policies(policies, setup_.ranks, shards(), parts);
  if (setup_.ranks.leads()) {
    for (std::size_t p = 0; p < policies.size(); ++p) {
      if (seats_[p].learner && setup_.appo) parts.emplace_back(policies[p].names.target, seats_[p].learner->target());
    }
    if (!has_agents()) parts.emplace_back(kNormalizers, normalizers_.state());
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
RolloutWorker::Resumed ImpalaSeats::load(const learner::StateParts& parts, const Before& before) {
  restore_episodes(before.run, before.episodes, episodes_);
  const std::vector<PolicyState> policies = policy_states();
  for (std::size_t p = 0; p < policies.size(); ++p) {
    load_policy(policies[p], before.passes, shards(), parts);
    if (!seats_[p].learner) {
      for (const auto& sampler : samplers_)
        model::copy_named(policies[p].tensors(), model::named_state_of(sampler->policy(p)));
    } else if (setup_.appo) {
      seats_[p].learner->load_target(learner::part_of(parts, policies[p].names.target));
    }
  }
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
