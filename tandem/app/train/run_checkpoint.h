// app/train/run_checkpoint.h: what a checkpoint of a run holds besides the run itself, and how both are written, read,
// found, and kept in memory.
//
// Threads: single-thread, between two updates. Only rank 0 writes; loading is collective, and the other ranks get their
// parts from rank 0.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "tandem/app/config/train_options.h"
#include "tandem/app/run/summary.h"
#include "tandem/learner/ranks.h"
#include "tandem/learner/state_parts.h"
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

/// What a checkpoint tells of the run as it is between two updates. `config`: its config.yaml; `score`: larger is
/// better.
[[nodiscard]] model::CheckpointInfo describe(const rl::TrainingRun& run, const TrainOptions& options,
                                             const RunProgress& progress, const std::string& config,
                                             std::optional<double> score);

/// Writes the checkpoint after so many updates: what save_aside() gave, or what save() gave and nothing kept. Returns
/// its folder when the disk holds it. Throws CheckpointError when the disk refuses; earlier checkpoints are whole then.
/// From any thread that has the store for itself.
std::filesystem::path save_run(model::CheckpointStore& store, std::int64_t updates, const learner::StateAside& state,
                               const model::CheckpointInfo& info);

/// Which updates have a line of metrics.jsonl in the run that wrote the checkpoint.
[[nodiscard]] LineSchedule line_schedule(const model::Checkpoint& checkpoint);
/// The config.yaml that describe() was given. Empty when the checkpoint was written without one.
[[nodiscard]] std::string config_of(const model::Checkpoint& checkpoint);

/// Why a resumed run began new episodes, as a sentence for its log; empty where it did not.
[[nodiscard]] std::string why_new_episodes(const std::string& env, rl::RolloutWorker::Resumed resumed);

/// Brings `run` to the state of the checkpoint. Collective, as TrainingRun::load(). Returns what describe() was given,
/// with `resumed` as it is now; `remark` says why the run's numbers may from here on differ from those of an
/// uninterrupted one (another LibTorch, other instructions or kernels, another type of devices, new episodes), and is
/// empty when they do not. Throws CheckpointError when the checkpoint is of another kind of run or another model.
[[nodiscard]] RunProgress load_run(rl::TrainingRun& run, const TrainOptions& options,
                                   const model::Checkpoint& checkpoint, std::string& remark);

/// The state of a run after its last complete update, which every rank keeps in memory: what a run goes on from when
/// ranks have died, or when one has come. It is what a checkpoint holds, so it loads on any number of ranks, with the
/// same numbers afterwards. The program owns the object beyond a single meeting of ranks, so it survives the groups,
/// learners and records that are rebuilt after a loss. It costs as much memory as the run's state.
struct KeptState {
  std::int64_t updates = -1;  // -1: there is none
  learner::StateParts parts{};
  RunProgress progress{};
  /// A line of metrics.jsonl for this update, without its end. Whoever leads writes it when all have kept the update,
  /// if one is due, and may die before; the last update of a run has one always. Empty before the first update.
  std::string line{};
  /// Whether it is time to meet anew, since somebody waits to join. From any thread.
  std::function<bool()> someone_waits = [] { return false; };

  [[nodiscard]] bool exists() const { return updates >= 0; }
};

/// Collective: the root's text; what others give is not looked at. Blocks until all ranks have called it. Throws
/// PeerLost or DeadlineExceeded as Ranks does.
[[nodiscard]] std::string text_from(const learner::Ranks& ranks, int root, const std::string& roots);

/// Collective: all ranks get the state of those that have made the most updates. Throws RunError when none has any.
/// Ranks differ when a loss came before all had kept an update, or when a rank has just come. `kept` is unchanged when
/// a rank is lost before all has arrived.
void share_newest(const learner::Ranks& ranks, KeptState& kept);

/// Whether `path` is the folder of one checkpoint. A run that still trains can be named, since a checkpoint is whole
/// once its manifest is there. Looks for the manifest alone; false, and no error, where the path cannot be read.
[[nodiscard]] bool is_checkpoint(const std::filesystem::path& path);

/// The checkpoint at `path`, or the newest one of the run there, every byte checked. Throws ConfigError when there is
/// neither, and CheckpointError when it is damaged.
[[nodiscard]] model::Checkpoint find_checkpoint(const std::filesystem::path& path);

/// The options of the run that wrote it.
/// Throws CheckpointError when the checkpoint holds no configuration, as one that another program wrote.
[[nodiscard]] TrainOptions options_of(const model::Checkpoint& checkpoint);

}  // namespace tandem::app
