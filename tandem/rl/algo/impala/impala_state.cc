#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/philox.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {

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
                                          episodes));
  }
  return gather_parts(setup_.ranks, std::move(parts));
}

// Reads all parts on the leader, checks the first env group before anything is changed, and loads everywhere. Ranks
// agree at the end whether all episodes went on exactly.
RolloutWorker::Resumed ImpalaRun::load(const learner::ReadPart& read_part) {
  quiesce();
  std::vector<std::string> names = seats_->part_names();
  names.emplace_back("run");
  const auto read = [&](const std::string& name) {
    model::NamedTensors tensors = read_part(name);
    if (name == group_part(0)) seats_->check_first_group(tensors);
    return tensors;
  };
  const learner::StateParts parts = parts_from_leader(setup_.ranks, names, read);
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
