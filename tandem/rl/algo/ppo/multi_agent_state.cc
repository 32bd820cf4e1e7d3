// The state of a MultiAgentRun: what is hashed, and what a checkpoint holds.
#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/model/files/named_copy.h"
#include "tandem/rl/algo/ppo/multi_agent_run.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

constexpr const char* kKlCoefOfPolicy = "kl_coef";  // of the next update, where it is adapted

std::vector<std::string> parts_of_policies(const PolicyMap& map, int shards) {
  std::vector<std::string> names{"run"};
  for (const MappedPolicy& policy : map) {
    names.push_back(policy_part(policy.name));
    names.push_back(progress_part(policy.name));
  }
  for (int shard = 0; shard < shards; ++shard) {
    names.push_back(shard_part(shard));
    names.push_back(group_part(shard));
  }
  return names;
}

}  // namespace

std::string MultiAgentRun::params_sha256() {
  model::NamedTensors all;
  for (std::size_t p = 0; p < map_.size(); ++p) append_under(map_[p].name, model::named_parameters_of(policy(p)), all);
  return model::bytes_sha256(all);
}

std::string MultiAgentRun::state_sha256() {
  model::NamedTensors all;
  for (std::size_t p = 0; p < map_.size(); ++p) append_under(map_[p].name, state_of(p), all);
  return model::state_sha256(std::move(all));
}

// Collective where the policy is trained.
model::NamedTensors MultiAgentRun::state_of(std::size_t policy) {
  return seats_[policy].team ? seats_[policy].team->state() : model::named_state_of(this->policy(policy));
}

model::NamedTensors MultiAgentRun::progress_of(std::size_t policy) const {
  const Seat& seat = seats_[policy];
  const auto passes = seat.team ? static_cast<std::int64_t>(seat.team->member(0).learner.passes()) : 0;
  model::NamedTensors part = run_part_of({passes, seat.episodes.total()}, seat.episodes);
  if (setup_.ppo.kl_coef_target && seat.team)
    part.emplace_back(kKlCoefOfPolicy, at::tensor({seat.ppo.front()->kl_coef()}, at::kDouble));
  return part;
}

learner::StateParts MultiAgentRun::save() {
  learner::StateParts parts;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    model::NamedTensors state = state_of(p);
    if (!setup_.ranks.leads()) continue;
    parts.emplace_back(policy_part(map_[p].name), std::move(state));
    parts.emplace_back(progress_part(map_[p].name), progress_of(p));
  }
  if (setup_.ranks.leads())
    parts.emplace_back("run", run_part_of({updates_, env_steps_, episodes_.total()}, episodes_));
  for (int local = 0; local < any_team().size(); ++local) {
    const Range mine = any_team().member(local).replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) {
      model::NamedTensors generators;
      for (std::size_t p = 0; p < map_.size(); ++p) {
        if (!seats_[p].team) continue;
        generators.emplace_back(generator_name(map_[p].name),
                                seats_[p].team->member(local).replica.generator(shard).get_state());
      }
      parts.emplace_back(shard_part(shard), std::move(generators));
    }
  }
  save_groups(workers_, shards_.begin, parts);
  return gather_parts(setup_.ranks, std::move(parts));
}

void MultiAgentRun::load_policy(std::size_t policy, const learner::StateParts& parts) {
  Seat& seat = seats_[policy];
  const model::NamedTensors& state = learner::part_of(parts, policy_part(map_[policy].name));
  if (seat.team) {
    seat.team->load_state(state);
  } else {
    for (const auto& module : seat.modules) model::copy_named(state, model::named_state_of(*module));
  }
  const std::string name = progress_part(map_[policy].name);
  const model::NamedTensors& progress = learner::part_of(parts, name);
  const std::vector<std::int64_t> counters = counters_of(progress, 2);
  restore_episodes(progress, counters[1], seat.episodes);
  if (!seat.team) return;
  seat.team->set_passes(static_cast<std::uint64_t>(counters[0]));
  if (!setup_.ppo.kl_coef_target) return;
  const auto kl_coef = find(progress, kKlCoefOfPolicy, name).item<double>();
  for (const auto& ppo : seat.ppo) ppo->set_kl_coef(kl_coef);
}

void MultiAgentRun::load_streams(int local, int shard, const learner::StateParts& parts) {
  const std::string streams = shard_part(shard);
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (!seats_[p].team) continue;
    const at::Tensor& state = find(learner::part_of(parts, streams), generator_name(map_[p].name), streams);
    seats_[p].team->member(local).replica.generator(shard).set_state(state);
  }
}

RolloutWorker::Resumed MultiAgentRun::load(const learner::ReadPart& read_part) {
  const learner::StateParts parts = parts_from_leader(setup_.ranks, parts_of_policies(map_, setup_.shards), read_part);
  const model::NamedTensors& run = learner::part_of(parts, "run");
  const std::vector<std::int64_t> counters = counters_of(run, 3);
  updates_ = counters[0];
  env_steps_ = counters[1];
  restore_episodes(run, counters[2], episodes_);
  for (std::size_t p = 0; p < map_.size(); ++p) load_policy(p, parts);
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  for (int local = 0; local < any_team().size(); ++local) {
    const Range mine = any_team().member(local).replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) load_streams(local, shard, parts);
  }
  double inexact = load_groups(parts, workers_, shards_.begin, seed) == RolloutWorker::Resumed::kExactly ? 0 : 1;
  for (const std::vector<double>& rank : setup_.ranks.gather({inexact})) inexact = std::max(inexact, rank.front());
  return inexact > 0 ? RolloutWorker::Resumed::kWithNewEpisodes : RolloutWorker::Resumed::kExactly;
}

}  // namespace tandem::rl
