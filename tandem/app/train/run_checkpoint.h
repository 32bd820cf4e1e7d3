// app/train/run_checkpoint.h: what a checkpoint of a run holds besides the run itself, and how both are written and
// read.
//
// Threads: single-thread, between two updates. Only rank 0 writes; loading is collective, and the other ranks get their
// parts from rank 0.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "tandem/app/config/train_options.h"
#include "tandem/app/run/summary.h"
#include "tandem/model/files/checkpoint_store.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::app {

/// The facts about a run that the program knows and the run does not. Both fields travel in the checkpoint, since a
/// resumed run cannot recompute them.
struct RunProgress {
  std::optional<std::int64_t> solved_at_env_steps;
  ResumeExactness resumed = ResumeExactness::kNeverResumed;
};

/// LibTorch's version, and the vector instructions of the run's own loops and of LibTorch: within these the same
/// numbers come again.
[[nodiscard]] std::string torch_version();
[[nodiscard]] std::string instruction_sets(const TrainOptions& options);

/// Returns a summary with the settings, the progress and the figures of this process; the rest is left empty.
[[nodiscard]] Summary summary_of(const TrainOptions& options, const RunProgress& progress, RunEnd end);

/// Writes a checkpoint of the run as it is between two updates; `parts`: what run.save() gave; `config`: its
/// config.yaml. Returns when the disk holds it. Throws CheckpointError when the disk refuses; earlier checkpoints are
/// whole then.
void save_run(const rl::TrainingRun& run, const TrainOptions& options, const learner::StateParts& parts,
              const RunProgress& progress, const std::string& config, model::CheckpointStore& store);

/// Updates of a line of metrics.jsonl in the run that wrote the checkpoint.
[[nodiscard]] std::int64_t metrics_interval(const model::Checkpoint& checkpoint);
/// The config.yaml that save_run() was given. Empty when the checkpoint was written without one.
[[nodiscard]] std::string config_of(const model::Checkpoint& checkpoint);

/// Brings `run` to the state of the checkpoint. Collective, as TrainingRun::load(). Returns what save_run() was given,
/// with `resumed` as it is now; `remark` says why the run's numbers may from here on differ from those of an
/// uninterrupted one (another LibTorch, other instructions or kernels, another type of devices, new episodes), and is
/// empty when they do not. Throws CheckpointError when the checkpoint is of another kind of run or another model.
[[nodiscard]] RunProgress load_run(rl::TrainingRun& run, const TrainOptions& options,
                                   const model::Checkpoint& checkpoint, std::string& remark);

}  // namespace tandem::app
