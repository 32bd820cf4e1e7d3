// The state of a PpoRun: what is hashed, and what a checkpoint holds.
//
// With one agent the names of parts and tensors are those of runs that knew no seats, so that their checkpoints load:
// the seat's counters lie in "run", and its random streams have no name in them.
#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/agent_policies.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

constexpr const char* kKlCoef = "kl_coef";  // of the next update, where it is adapted

std::string part_of_seat(const std::string& name) { return name.empty() ? "state" : policy_part(name); }
std::string stream_of_seat(const std::string& name) { return name.empty() ? "generator" : generator_name(name); }

}  // namespace

std::string PpoRun::params_sha256() {
  if (!is_several()) return params_sha256_of(policy());
  model::NamedTensors all;
  for (const Seat& seat : seats_) append_under(seat.name, model::named_parameters_of(*seat.modules.front()), all);
  return model::bytes_sha256(all);
}

std::string PpoRun::state_sha256() {
  if (!is_several()) return state_sha256_of(*seats_.front().team, normalizers_);
  model::NamedTensors all;
  for (Seat& seat : seats_) append_under(seat.name, state_of(seat), all);
  return model::state_sha256(std::move(all));
}

// Collective where the policy is trained.
model::NamedTensors PpoRun::state_of(Seat& seat) const {
  return seat.team ? seat.team->state() : model::named_state_of(*seat.modules.front());
}

// The names do not depend on replicas and ranks, so a checkpoint loads on any topology.
std::vector<std::string> PpoRun::part_names() const {
  std::vector<std::string> names{"run"};
  for (const Seat& seat : seats_) {
    names.push_back(part_of_seat(seat.name));
    names.push_back(is_several() ? progress_part(seat.name) : "normalizers");
  }
  for (int shard = 0; shard < setup_.shards; ++shard) {
    names.push_back(shard_part(shard));
    names.push_back(group_part(shard));
  }
  return names;
}

// All replicas have made the same passes.
std::int64_t PpoRun::passes_of(const Seat& seat) const {
  return seat.team ? static_cast<std::int64_t>(seat.team->member(0).learner.passes()) : 0;
}

void PpoRun::append_kl_coef(const Seat& seat, model::NamedTensors& part) const {
  if (setup_.ppo.kl_coef_target && seat.team)
    part.emplace_back(kKlCoef, at::tensor({seat.ppo.front()->kl_coef()}, at::kDouble));
}

model::NamedTensors PpoRun::progress_of(const Seat& seat) const {
  model::NamedTensors part = run_part_of({passes_of(seat), seat.episodes.total()}, seat.episodes);
  append_kl_coef(seat, part);
  return part;
}

model::NamedTensors PpoRun::run_part() const {
  if (is_several()) return run_part_of({updates_, env_steps_, episodes_.total()}, episodes_);
  const Seat& seat = seats_.front();
  model::NamedTensors part = run_part_of({updates_, env_steps_, passes_of(seat), episodes_.total()}, episodes_);
  append_kl_coef(seat, part);
  return part;
}

// The leader writes what all ranks have in common; each rank adds the parts of its own shards and groups.
learner::StateParts PpoRun::save() {
  learner::StateParts parts;
  for (Seat& seat : seats_) {
    model::NamedTensors state = state_of(seat);  // of all ranks together
    if (!setup_.ranks.leads()) continue;
    parts.emplace_back(part_of_seat(seat.name), std::move(state));
    if (is_several()) parts.emplace_back(progress_part(seat.name), progress_of(seat));
  }
  if (setup_.ranks.leads()) {
    if (!is_several()) parts.emplace_back("normalizers", normalizers_.state());
    parts.emplace_back("run", run_part());
  }
  for (int local = 0; local < any_team().size(); ++local) {
    const Range mine = any_team().member(local).replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) {
      model::NamedTensors& streams = parts.emplace_back(shard_part(shard), model::NamedTensors()).second;
      for (const Seat& seat : seats_) {
        if (!seat.team) continue;
        streams.emplace_back(stream_of_seat(seat.name), seat.team->member(local).replica.generator(shard).get_state());
      }
    }
  }
  save_groups(workers_, shards_.begin, parts);
  return gather_parts(setup_.ranks, std::move(parts));
}

// Counters of the run, and the normalisers where there are some; returns the passes of the one seat.
std::int64_t PpoRun::load_run_part(const learner::StateParts& parts) {
  const model::NamedTensors& run = learner::part_of(parts, "run");
  const std::vector<std::int64_t> counters = counters_of(run, is_several() ? 3 : 4);
  updates_ = counters[0];
  env_steps_ = counters[1];
  restore_episodes(run, counters.back(), episodes_);
  if (!is_several()) normalizers_.load(learner::part_of(parts, "normalizers"));
  return counters[2];
}

// With one agent the passes and the adapted weight of the divergence lie in "run", else in the seat's own part.
void PpoRun::load_seat(Seat& seat, std::int64_t passes, const learner::StateParts& parts) {
  const model::NamedTensors& state = learner::part_of(parts, part_of_seat(seat.name));
  if (seat.team) {
    seat.team->load_state(state);
  } else {
    for (const auto& module : seat.modules) model::copy_named(state, model::named_state_of(*module));
  }
  const std::string name = is_several() ? progress_part(seat.name) : "run";
  const model::NamedTensors& progress = learner::part_of(parts, name);
  if (is_several()) {
    const std::vector<std::int64_t> counters = counters_of(progress, 2);
    passes = counters[0];
    restore_episodes(progress, counters[1], seat.episodes);
  }
  if (!seat.team) return;
  seat.team->set_passes(static_cast<std::uint64_t>(passes));
  if (!setup_.ppo.kl_coef_target) return;
  const auto kl_coef = find(progress, kKlCoef, name).item<double>();
  for (const auto& ppo : seat.ppo) ppo->set_kl_coef(kl_coef);
}

void PpoRun::load_streams(int local, int shard, const learner::StateParts& parts) {
  const std::string name = shard_part(shard);
  for (const Seat& seat : seats_) {
    if (!seat.team) continue;
    const at::Tensor& state = find(learner::part_of(parts, name), stream_of_seat(seat.name), name);
    seat.team->member(local).replica.generator(shard).set_state(state);
  }
}

// Reads all parts on the leader, then loads counters, policies, random streams and env groups, and last lets the ranks
// agree whether all episodes went on.
GroupWorker::Resumed PpoRun::load(const learner::ReadPart& read_part) {
  const learner::StateParts parts = parts_from_leader(setup_.ranks, part_names(), read_part);
  const std::int64_t passes = load_run_part(parts);
  for (Seat& seat : seats_) load_seat(seat, passes, parts);
  for (int local = 0; local < any_team().size(); ++local) {
    const Range mine = any_team().member(local).replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) load_streams(local, shard, parts);
  }
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  const bool exact = load_groups(parts, workers_, shards_.begin, seed) == GroupWorker::Resumed::kExactly;
  double inexact = exact || setup_.ppo.completes_episodes() ? 0 : 1;  // whose updates begin new episodes in any case
  for (const std::vector<double>& rank : setup_.ranks.gather({inexact})) inexact = std::max(inexact, rank.front());
  return inexact > 0 ? GroupWorker::Resumed::kWithNewEpisodes : GroupWorker::Resumed::kExactly;
}

}  // namespace tandem::rl
