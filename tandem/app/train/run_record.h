// app/train/run_record.h: what a run leaves behind: metrics, checkpoints, summary, picture, and what it says meanwhile.
//
// Threads: single-thread. Errors: CheckpointError and RunError when the disk refuses.
#pragma once
#include <memory>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/app/train/train.h"
#include "tandem/base/clock.h"
#include "tandem/metrics/sink.h"

namespace tandem::app {

class RunRecord {
 public:
  /// All outlive it.
  RunRecord(const Configuration& configuration, const rl::TrainingRun& run, const TrainPlace& place);

  /// The run goes on from a checkpoint: what it held, and why its numbers may differ from here on (or nothing).
  void resumed(const RunProgress& progress, const std::string& remark);
  /// Cuts back what an earlier process left after the run's last update, and starts the clock.
  void begin();
  /// One update was made.
  void account(const rl::RunReport& report);
  /// `saved_updates`: how many updates the last checkpoint holds; 0 without one.
  [[nodiscard]] bool checkpoint_due(std::int64_t saved_updates) const;
  /// Writes a checkpoint of the run's `parts`.
  void checkpoint(const learner::StateParts& parts);
  /// Writes the summary and draws the picture.
  Summary finish(RunEnd end, const std::vector<learner::ReplicaTeam::Work>& work, const std::string& params_sha256,
                 const std::string& state_sha256);

 private:
  void note_solved(const rl::RunReport& report);
  [[nodiscard]] std::string batch_text() const;

  const TrainOptions& options_;
  const std::string& config_;
  const rl::TrainingRun& run_;
  const TrainPlace& place_;
  model::CheckpointStore store_;
  RunProgress progress_;
  std::vector<std::unique_ptr<MetricsSink>> sinks_;
  UpdateMetrics last_;
  std::optional<pipeline::PipelineReport> pipeline_;  // of the last update
  Clock::time_point started_, saved_at_;
  std::int64_t first_step_ = 0;
};

}  // namespace tandem::app
