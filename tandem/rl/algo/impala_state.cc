#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/impala_run.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {

std::string ImpalaRun::params_sha256() {
  quiesce();
  return params_sha256_of(learner_->policy());
}

std::string ImpalaRun::state_sha256() {
  quiesce();
  model::NamedTensors target;
  for (const auto& [name, tensor] : learner_->target()) target.emplace_back(concat("target.", name), tensor);
  return state_sha256_of(learner_->team(), normalizers_, target);
}

std::vector<learner::ReplicaTeam::Work> ImpalaRun::work() const {
  TANDEM_CHECK(!pipeline_, "the learner is at work");
  return learner_->team().work();
}

ImpalaRun::Places ImpalaRun::queue_slots() const {
  Places places{.all = slots_.size(), .idle = slots_.idle()};
  if (pipeline_) places.waiting = pipeline_->queue().size();
  if (pipeline_) places.held = pipeline_->held_by_workers();
  return places;
}

ImpalaRun::Places ImpalaRun::buffers() const {
  if (!pipeline_) return {.all = buffers_.size(), .idle = buffers_.size()};
  return {.all = buffers_.size(),
          .idle = pipeline_->buffers().idle(),
          .waiting = pipeline_->buffers().ready(),
          .held = pipeline_->held_by_learner()};
}

std::vector<std::string> ImpalaRun::part_names() const {
  std::vector<std::string> names = learner_->part_names();
  names.insert(names.end(), {"normalizers", "run"});
  const int groups = setup_.impala.workers * setup_.shards * setup_.impala.splits;
  for (int group = 0; group < groups; ++group) names.push_back(group_part(group));
  return names;
}

learner::StateParts ImpalaRun::save() {
  quiesce();
  learner::StateParts parts = learner_->save();
  std::int64_t trained = trained_before_;
  for (const std::vector<double>& rank : setup_.ranks.gather({static_cast<double>(learner_->rows_trained())}))
    trained += static_cast<std::int64_t>(rank.front());
  if (setup_.ranks.leads()) {
    parts.emplace_back("normalizers", normalizers_.state());
    parts.emplace_back("run", run_part_of({updates_, env_steps_, static_cast<std::int64_t>(learner_->passes()),
                                           episodes_.total(), steps_, trained, dropped_},
                                          episodes_));
  }
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    int number = group_numbers(worker).begin;
    for (const auto& group : samplers_[static_cast<std::size_t>(worker)]->rollout().groups())
      parts.emplace_back(group_part(number++), model::NamedTensors{{"state", tensor_of(group->save())}});
  }
  return gather_parts(setup_.ranks, std::move(parts));
}

// Once the shards were found to be as many as here.
void ImpalaRun::refuse_undivided(const model::NamedTensors& first_group) const {
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

RolloutWorker::Resumed ImpalaRun::load(const learner::ReadPart& read_part) {
  quiesce();
  const auto read = [&](const std::string& name) {
    model::NamedTensors tensors = read_part(name);
    if (name == group_part(0)) refuse_undivided(tensors);
    return tensors;
  };
  const learner::StateParts parts = parts_from_leader(setup_.ranks, part_names(), read);
  const auto part = [&parts](const std::string& name) { return learner::part_of(parts, name); };
  const model::NamedTensors run = part("run");
  const std::vector<std::int64_t> counters = counters_of(run, 7);
  updates_ = counters[0];
  env_steps_ = sampled_before_ = counters[1];
  learner_->team().set_passes(static_cast<std::uint64_t>(counters[2]));
  restore_episodes(run, counters[3], episodes_);
  steps_ = counters[4];
  trained_before_ = counters[5];
  dropped_ = dropped_before_ = counters[6];
  learner_->load(part);
  normalizers_.load(part("normalizers"));
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  double inexact = 0;
  for (int worker = 0; worker < setup_.impala.workers; ++worker) {
    int number = group_numbers(worker).begin;
    for (const auto& group : samplers_[static_cast<std::size_t>(worker)]->rollout().groups()) {
      const std::string name = group_part(number++);
      const model::NamedTensors saved = part(name);
      const at::Tensor bytes = find(saved, "state", name).contiguous();
      if (group->load(bytes_of(bytes), seed) != RolloutWorker::Resumed::kExactly) inexact = 1;
    }
  }
  for (const std::vector<double>& rank : setup_.ranks.gather({inexact})) inexact = std::max(inexact, rank.front());
  return inexact > 0 ? RolloutWorker::Resumed::kWithNewEpisodes : RolloutWorker::Resumed::kExactly;
}

}  // namespace tandem::rl
