// The state of a PpoRun: what is hashed, and what a checkpoint holds.
#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/ppo/ppo_run.h"

namespace tandem::rl {
namespace {

constexpr const char* kKlCoef = "kl_coef";  // of the next update, where it is adapted; in the policy's progress

}  // namespace

std::vector<PolicyState> PpoRun::policy_states() {
  std::vector<PolicyState> states;
  for (std::size_t s = 0; s < seats_.size(); ++s)
    states.push_back({PolicyNames(map_[s].name), seats_[s].team.get(), policy(s), seats_[s].episodes,
                      keeps_normalizers(setup_) ? &normalizers_[s] : nullptr});
  return states;
}

learner::StateParts PpoRun::policies() {
  learner::StateParts parts;
  for (const PolicyState& policy : policy_states()) {
    parts.emplace_back(policy.names.part, copies_of(model::named_state_of(policy.module)));
    if (policy.normalizers != nullptr) parts.emplace_back(policy.names.normalizers, policy.moments());
  }
  return parts;
}

std::string PpoRun::params_sha256() { return params_sha256_of(policy_states()); }

std::string PpoRun::state_sha256() {
  model::NamedTensors all;
  for (const PolicyState& policy : policy_states()) {
    append(policy.names.prefix, policy.tensors(), all);
    append(policy.names.normalizer_prefix, policy.moments(), all);
  }
  return model::state_sha256(std::move(all));
}

// The leader writes what all ranks have in common; each rank adds the parts of its own shards and groups. With one
// agent the policy's counters lie in "run".
learner::StateParts PpoRun::save() {
  learner::StateParts parts;
  const std::vector<PolicyState> policies = policy_states();
  save_policies(policies, setup_.ranks, shards_, parts);
  if (setup_.ranks.leads()) {
    std::vector<std::int64_t> counters{updates_, env_steps_};
    if (!is_several()) counters.push_back(policies.front().passes());
    counters.push_back(episodes_.total());
    parts.emplace_back("run", run_part_of(counters, episodes_, spec_.metrics));
    for (std::size_t s = 0; s < seats_.size(); ++s) {
      if (!setup_.ppo.kl_coef_target || !seats_[s].team) continue;
      std::ranges::find(parts, policies[s].names.progress, [](const auto& part) {
        return part.first;
      })->second.emplace_back(kKlCoef, at::tensor({seats_[s].ppo.front()->kl_coef()}, at::kDouble));
    }
  }
  save_groups(workers_, shards_.begin, parts);
  return gather_parts(setup_.ranks, std::move(parts));
}

// Counters of the run; returns the passes of the one policy.
std::int64_t PpoRun::load_run_part(const learner::StateParts& parts) {
  const model::NamedTensors& run = learner::part_of(parts, "run");
  const std::vector<std::int64_t> counters = counters_of(run, is_several() ? 3 : 4);
  updates_ = counters[0];
  env_steps_ = counters[1];
  restore_episodes(run, counters.back(), episodes_, spec_.metrics);
  return counters[2];
}

void PpoRun::load_seat(Seat& seat, const PolicyState& state, std::int64_t passes, const learner::StateParts& parts) {
  load_policy(state, passes, shards_, parts);
  if (!seat.team) {
    for (const auto& module : seat.modules) model::copy_named(state.tensors(), model::named_state_of(*module));
  } else if (setup_.ppo.kl_coef_target) {
    const std::string& name = state.names.progress;
    const auto kl_coef = find(learner::part_of(parts, name), kKlCoef, name).item<double>();
    for (const auto& ppo : seat.ppo) ppo->set_kl_coef(kl_coef);
  }
}

// Reads all parts on the leader, then loads counters, policies, random streams and env groups, and last lets the ranks
// agree whether all episodes went on.
GroupWorker::Resumed PpoRun::load(const learner::ReadPart& read_part) {
  const learner::StateParts parts =
      parts_from_leader(setup_.ranks, part_names_of(setup_, map_, /*has_targets=*/false, setup_.shards), read_part);
  const std::int64_t passes = load_run_part(parts);
  const std::vector<PolicyState> policies = policy_states();
  for (std::size_t s = 0; s < seats_.size(); ++s) load_seat(seats_[s], policies[s], passes, parts);
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  return agreed(setup_.ranks, load_groups(parts, workers_, shards_.begin, seed));
}

}  // namespace tandem::rl
