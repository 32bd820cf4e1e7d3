// The state of an OffPolicyRun: what is hashed, and what a checkpoint holds.
#include <ATen/ATen.h>

#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/off_policy/off_policy_run.h"

namespace tandem::rl {
namespace {

std::string replay_part(int shard) { return concat("replay-", shard); }

// Pieces of a replay as one part: array A of piece P under "P/A".
model::NamedTensors tensors_of(const ReplaySnapshot& snapshot) {
  model::NamedTensors tensors;
  for (const ReplayPiece& piece : snapshot.pieces) {
    for (const NamedBytes& array : piece.arrays)
      tensors.emplace_back(concat(piece.name, "/", array.name),
                           tensor_of(std::vector<std::byte>(array.bytes.begin(), array.bytes.end())));
  }
  return tensors;
}

ReadReplayPiece pieces_of(const model::NamedTensors& tensors, const std::string& part) {
  return [&tensors, part](const std::string& name) {
    ReplayPiece piece{.name = name, .is_final = true, .arrays = {}, .memory = {}};
    const std::string begin = name + "/";
    for (const auto& [full, tensor] : tensors) {
      if (full.starts_with(begin)) piece.arrays.push_back({full.substr(begin.size()), bytes_of(tensor)});
    }
    if (piece.arrays.empty()) throw CheckpointError(concat("part '", part, "' of the checkpoint has no ", name));
    return piece;
  };
}

}  // namespace

PolicyState OffPolicyRun::policy_state() {
  return {PolicyNames(map_.front().name), team_.get(), policy(), episodes_, &normalizers_.front()};
}

learner::StateParts OffPolicyRun::policies() {
  const PolicyState policy = policy_state();
  return {{policy.names.part, copies_of(model::named_state_of(policy.module))},
          {policy.names.normalizers, policy.moments()}};
}

std::string OffPolicyRun::params_sha256() { return params_sha256_of({policy_state()}); }

std::string OffPolicyRun::state_sha256() {
  const PolicyState policy = policy_state();
  model::NamedTensors all = policy.tensors();
  append(policy.names.normalizer_prefix, policy.moments(), all);
  append(policy.names.target_prefix, agents_.front()->targets(), all);
  return model::state_sha256(std::move(all));
}

// The leader writes what all ranks have in common; each rank adds the parts of its own shards.
learner::StateParts OffPolicyRun::save() {
  learner::StateParts parts;
  const std::vector<PolicyState> policies{policy_state()};
  save_policies(policies, setup_.ranks, shards_, parts);
  if (setup_.ranks.leads()) {
    parts.emplace_back("run", run_part_of({updates_, env_steps_, turns_, policies.front().passes(), episodes_.total()},
                                          episodes_, spec_.metrics));
    parts.emplace_back(policies.front().names.target, agents_.front()->targets());
  }
  save_groups(workers_, shards_.begin, parts);
  for (std::size_t i = 0; i < workers_.size(); ++i)
    parts.emplace_back(replay_part(shards_.begin + static_cast<int>(i)), tensors_of(workers_[i]->save_replay()));
  return gather_parts(setup_.ranks, std::move(parts));
}

// The replay comes before the environments, which tell it where new episodes begin.
ExperienceWorker::Resumed OffPolicyRun::load(const learner::ReadPart& read_part) {
  std::vector<std::string> names = part_names_of(setup_, map_, /*has_targets=*/true, setup_.shards);
  for (int shard = 0; shard < setup_.shards; ++shard) names.push_back(replay_part(shard));
  const learner::StateParts parts = parts_from_leader(setup_.ranks, names, read_part);
  const model::NamedTensors& run = learner::part_of(parts, "run");
  const std::vector<std::int64_t> counters = counters_of(run, 5);
  updates_ = counters[0];
  env_steps_ = counters[1];
  turns_ = counters[2];
  restore_episodes(run, counters[4], episodes_, spec_.metrics);
  const PolicyState policy = policy_state();
  load_policy(policy, counters[3], shards_, parts);
  for (const auto& agent : agents_) agent->load_targets(learner::part_of(parts, policy.names.target));
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const std::string part = replay_part(shards_.begin + static_cast<int>(i));
    workers_[i]->restore_replay(pieces_of(learner::part_of(parts, part), part));
  }
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  return agreed(setup_.ranks, load_groups(parts, workers_, shards_.begin, seed));
}

}  // namespace tandem::rl
