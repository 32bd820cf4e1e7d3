// app/train/checkpoint_record.h: the checkpoints of a run that trains: when one is due, and how it comes to the disk.
//
// A checkpoint of a large state (TrainingRun::save_aside()) is written by a thread of its own while the run goes on,
// one at a time. Until it is whole, the checkpoint before it is the newest. Others are written at once.
//
// The thread gets what it writes by value. It has the store for itself until written() or wait() has told of its end,
// so nothing else may ask for what the store holds before.
//
// Threads: single-thread, rank 0's main one. Errors: CheckpointError when the disk refuses, RunError when the run
// folder is no longer at its place; those of start() come by written() or wait(). Earlier checkpoints are whole then.
// The destructor waits for the disk.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/app/run/run_log.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/app/train/run_observer.h"
#include "tandem/base/clock.h"
#include "tandem/concurrency/worker.h"

namespace tandem::app {

class CheckpointRecord {
 public:
  /// All outlive it.
  CheckpointRecord(const Configuration& configuration, const rl::TrainingRun& run, RunLog& log,
                   const RunFolder& folder);

  /// The run begins, or goes on from where it is: later checkpoints are removed, which come from a process that went
  /// further, and under whose names this one would write others.
  void begin();
  /// Whether one is due. `saved_updates`: how many updates the last one holds; 0 without one.
  [[nodiscard]] bool is_due(std::int64_t saved_updates) const;
  /// Parts of the newest checkpoint, for save_aside(). While none is being written.
  [[nodiscard]] std::set<std::string> held() const { return store_.held(); }

  /// Writes what save() gave, now.
  SavedCheckpoint write(learner::StateParts parts, const RunProgress& progress);
  /// Begins to write what save_aside() gave. The one before must be written.
  void start(learner::StateAside state, const RunProgress& progress);
  /// The one that start() began and that is on the disk since the last call; waits for nothing.
  std::optional<SavedCheckpoint> written();
  /// The same, and waits for the disk. Nothing when none is on its way.
  std::optional<SavedCheckpoint> wait();

 private:
  [[nodiscard]] SavedCheckpoint saved_now() const;
  void note(const SavedCheckpoint& saved) const;

  const Configuration& configuration_;
  const rl::TrainingRun& run_;
  RunLog& log_;
  const RunFolder& folder_;
  model::CheckpointStore store_;
  Clock::time_point saved_at_;
  SavedCheckpoint on_its_way_;
  std::optional<Worker> writer_;  // last, since its thread writes the two above
};

}  // namespace tandem::app
