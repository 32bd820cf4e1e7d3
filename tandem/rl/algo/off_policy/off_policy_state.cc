// The state of an OffPolicyRun: what is hashed, and what a checkpoint holds.
#include <ATen/ATen.h>

#include <set>
#include <span>
#include <sstream>

#include "tandem/base/philox.h"
#include "tandem/concurrency/trace.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/off_policy/off_policy_run.h"
#include "tandem/rl/algo/off_policy/replay_parts.h"

namespace tandem::rl {
namespace {

// The leader's names, on all ranks.
std::set<std::string> leaders_names(const learner::Ranks& ranks, const std::set<std::string>& names) {
  if (ranks.size() == 1) return names;
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  const std::vector<std::byte> bytes = ranks.from_leader(std::as_bytes(std::span(text)));
  std::istringstream lines(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::set<std::string> all;
  for (std::string line; std::getline(lines, line);) all.insert(line);
  return all;
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
learner::StateParts OffPolicyRun::parts_beside_replay() {
  learner::StateParts parts;
  const std::vector<PolicyState> policies{policy_state()};
  save_policies(policies, setup_.ranks, shards_, parts);
  if (setup_.ranks.leads()) {
    parts.emplace_back("run", run_part_of({updates_, env_steps_, turns_, policies.front().passes(), episodes_.total()},
                                          episodes_, spec_.metrics));
    parts.emplace_back(policies.front().names.target, agents_.front()->targets());
  }
  save_groups(workers_, shards_.begin, parts);
  return parts;
}

learner::StateParts OffPolicyRun::save() {
  learner::StateParts parts = parts_beside_replay();
  int shard = shards_.begin;
  for (const auto& worker : workers_) append_replay(shard++, worker->save_replay(), {}, parts);
  return gather_parts(setup_.ranks, std::move(parts));
}

// Parameters and moments lie in memory that the next step writes to, hence the copies. What was kept follows from the
// names that the gathered parts have of all segments.
std::optional<learner::StateAside> OffPolicyRun::save_aside(const std::set<std::string>& held) {
  const std::set<std::string> known = leaders_names(setup_.ranks, held);
  learner::StateParts parts;
  {
    const Span span("copy state");
    parts = parts_beside_replay();
    for (auto& [name, tensors] : parts) tensors = copies_of(tensors);
  }
  int shard = shards_.begin;
  for (const auto& worker : workers_) {
    const Span span("snapshot replay");
    append_replay(shard++, worker->save_replay(), known, parts);
  }
  learner::StateAside aside{.parts = gather_parts(setup_.ranks, std::move(parts)), .kept = {}};
  for (shard = 0; shard < setup_.shards; ++shard) {
    for (const std::string& segment : segments_of_replay(learner::part_of(aside.parts, replay_part(shard)))) {
      if (known.contains(segment)) aside.kept.push_back(segment);
    }
  }
  return aside;
}

// All ranks ask the leader for the segments of every shard, one after the other in the same order: the rank of the
// shard as its replay wants them, the others as the checkpoint lists them.
void OffPolicyRun::load_replay(int shard, const model::NamedTensors& part, const learner::ReadPart& read_part) {
  const auto read = [&](const std::string& name) {
    const learner::StateParts parts = parts_from_leader(setup_.ranks, {name}, read_part);
    return learner::part_of(parts, name);
  };
  if (shard >= shards_.begin && shard < shards_.end) {
    workers_[static_cast<std::size_t>(shard - shards_.begin)]->restore_replay(pieces_of_replay(shard, part, read));
    return;
  }
  for (const std::string& segment : segments_of_replay(part)) (void)read(segment);
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
  for (int shard = 0; shard < setup_.shards; ++shard)
    load_replay(shard, learner::part_of(parts, replay_part(shard)), read_part);
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  return agreed(setup_.ranks, load_groups(parts, workers_, shards_.begin, seed));
}

}  // namespace tandem::rl
