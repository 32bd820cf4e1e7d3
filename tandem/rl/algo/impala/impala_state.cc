// The state of ImpalaSeats and ImpalaRun: hashes and checkpoints. The pipeline rests while these functions run.
#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/impala/impala_run.h"

namespace tandem::rl {

std::vector<PolicyState> ImpalaSeats::policy_states() {
  std::vector<PolicyState> states;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    Seat& seat = seats_[p];
    states.push_back({PolicyNames(map_[p].name), seat.learner ? &seat.learner->team() : nullptr, seat.policy(),
                      seat.episodes, keeps_normalizers(setup_) ? &normalizers_[p] : nullptr});
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
    append(policies[p].names.normalizer_prefix, policies[p].moments(), all);
  }
  return model::state_sha256(std::move(all));
}

// The leader writes what all ranks have in common. Each rank writes the shards and env groups that it has.
void ImpalaSeats::save(learner::StateParts& parts) {
  const std::vector<PolicyState> policies = policy_states();
  save_policies(policies, setup_.ranks, shards(), parts);
  if (setup_.ranks.leads()) {
    for (std::size_t p = 0; p < policies.size(); ++p) {
      if (seats_[p].learner && setup_.appo) parts.emplace_back(policies[p].names.target, seats_[p].learner->target());
    }
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
  restore_episodes(before.run, before.episodes, episodes_, spec_.metrics);
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
  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    resumed = std::max(
        resumed, samplers_[index_of(worker)]->load(parts, group_numbers(worker).begin, before.seed_of_new_episodes));
  }
  return resumed;
}

std::string ImpalaRun::params_sha256() {
  quiesce();
  return seats_->params_sha256();
}

std::string ImpalaRun::state_sha256() {
  quiesce();
  return seats_->state_sha256();
}

std::vector<learner::ReplicaTeam::Work> ImpalaRun::work() const {
  TANDEM_CHECK(!pipeline_, "the learner is at work");
  return seats_->work();
}

// Between two runs of the pipeline all slots and buffers are idle.
ImpalaRun::Places ImpalaRun::queue_slots() const {
  Places places{.all = slots_.size(), .idle = slots_.idle()};
  if (pipeline_) places.waiting = pipeline_->queue().size();
  if (pipeline_) places.held = pipeline_->held_by_workers();
  return places;
}

ImpalaRun::Places ImpalaRun::buffers() const {
  const auto all = static_cast<std::size_t>(setup_.impala.buffers);
  if (!pipeline_) return {.all = all, .idle = all};
  return {.all = all,
          .idle = pipeline_->buffers().idle(),
          .waiting = pipeline_->buffers().ready(),
          .held = pipeline_->held_by_learner()};
}

// Collective. Samples that each rank trained on are summed; all other counters are the same on all ranks. The order of
// the counters is the checkpoint's format.
learner::StateParts ImpalaRun::save() {
  quiesce();
  learner::StateParts parts;
  seats_->save(parts);
  std::int64_t trained = trained_before_;
  for (const std::vector<double>& rank : setup_.ranks.gather({static_cast<double>(trained_)}))
    trained += static_cast<std::int64_t>(rank.front());
  if (setup_.ranks.leads()) {
    const EpisodeWindow& episodes = seats_->episodes();
    parts.emplace_back("run", run_part_of({updates_, env_steps_, static_cast<std::int64_t>(seats_->passes()),
                                           episodes.total(), steps_, trained, dropped_},
                                          episodes, seats_->spec().metrics));
  }
  return gather_parts(setup_.ranks, std::move(parts));
}

// Reads all parts on the leader, checks the first env group before anything is changed, and loads everywhere. Ranks
// agree at the end whether all episodes went on exactly.
RolloutWorker::Resumed ImpalaRun::load(const learner::ReadPart& read_part) {
  quiesce();
  const auto read = [&](const std::string& name) {
    model::NamedTensors tensors = read_part(name);
    if (name == group_part(0)) seats_->check_first_group(tensors);
    return tensors;
  };
  const learner::StateParts parts = parts_from_leader(setup_.ranks, seats_->part_names(), read);
  const model::NamedTensors& run = learner::part_of(parts, "run");
  const std::vector<std::int64_t> counters = counters_of(run, 7);
  updates_ = counters[0];
  env_steps_ = sampled_before_ = counters[1];
  steps_ = counters[4];
  trained_before_ = counters[5];
  trained_ = 0;
  dropped_ = dropped_before_ = counters[6];
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  return agreed(
      setup_.ranks,
      seats_->load(parts, {.run = run, .passes = counters[2], .episodes = counters[3], .seed_of_new_episodes = seed}));
}

}  // namespace tandem::rl
