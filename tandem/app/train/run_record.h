// app/train/run_record.h: what a run leaves behind: metrics, checkpoints, summary, picture, and what it says meanwhile.
//
// Threads: single-thread. Errors: CheckpointError and RunError when the disk refuses.
//
// Only rank 0 has one. A line is written when no rank can go back behind its update, so an update gets no second line
// after a loss of ranks. The place, the run and the configuration are referred to, not copied.
#pragma once
#include <memory>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/line_schedule.h"
#include "tandem/app/run/rollout_record.h"
#include "tandem/app/train/checkpoint_record.h"
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
  /// `lines`: which updates had a line of metrics when it was written.
  void resumed(const RunProgress& progress, const std::string& remark, const LineSchedule& lines);
  /// Cuts back what an earlier process left after the run's last update, writes the line that it did not come to write
  /// (KeptState::line), and starts the clock. Called once, after a resume if there is one, and before the first update.
  /// Throws CheckpointError when a file cannot be cut or opened.
  void begin();
  /// The facts about the run that the run itself does not know.
  [[nodiscard]] const RunProgress& progress() const { return progress_; }
  /// One update was made. Turns the report into the numbers of a line and shows the progress; writes no numbers but
  /// those of rollouts.jsonl. Throws RunError when the run folder is no longer at its place.
  void account(const rl::RunReport& report);
  /// The update which was accounted as a line of metrics.jsonl, whether it is written there or not; as its text, and as
  /// its figures.
  [[nodiscard]] std::string line() const;
  [[nodiscard]] Record figures() const { return to_record(last_); }
  /// Writes that line, if one of `log.every_updates` is due, when no rank goes back behind the update any more.
  void write_line();
  /// Whether the run is to be evaluated after this update; `is_last`: the run ends with it.
  [[nodiscard]] bool evaluation_due(bool is_last) const;
  /// Plays episodes with the policies of this update; their figures join its line, and the best policies are kept in
  /// the folder's best/. Blocks until they are through.
  void evaluate(const learner::StateParts& policies, const rl::EnvRegistry& environments);
  /// Whether an evaluation reached eval.stop_at.
  [[nodiscard]] bool reached_target() const { return reached_.has_value(); }
  /// The run ends after this update, since this rank got this signal; 0: since the program's observer asks for it
  /// (RunObserver::stop_wish). Says so in the log.
  void stopping(int rank, int signal);
  /// From begin() on.
  [[nodiscard]] CheckpointRecord& checkpoints() { return checkpoints_; }
  /// Writes the summary and draws the picture. Called once in place of failed(). The last update gets a line even where
  /// none was due, so that the curve reaches the end.
  Summary finish(RunEnd end, const std::vector<learner::ReplicaTeam::Work>& work, const std::string& params_sha256,
                 const std::string& state_sha256);
  /// In place of finish(), of a run that ended by an error. A disk that refuses is told to the log. Waits for a
  /// checkpoint that is on its way. Writes nothing when the run folder is no longer at its place.
  void failed(const std::string& why);
  /// As failed(), and logs it: nobody who would is left, since a library ends the process.
  void ended_early(const std::string& why);

 private:
  [[nodiscard]] double wall_seconds() const;
  [[nodiscard]] Summary summary_of(RunEnd end) const;
  void write_metrics();
  bool write_kept_line();
  [[nodiscard]] bool has_line(std::int64_t update) const;
  [[nodiscard]] UpdateMetrics last_known() const;
  void open_rollouts(std::int64_t updates);
  void warn_of_lost_lines();
  void draw_picture() const;
  void tell(const std::string& line) const;
  void note_solved(const rl::RunReport& report);
  void account_gradients(Summary& summary) const;
  void await_checkpoint();

  const TrainOptions& options_;
  const std::string& config_;
  const rl::TrainingRun& run_;
  const TrainPlace& place_;
  CheckpointRecord checkpoints_;
  model::CheckpointStore best_;  // policies that were evaluated best
  RunProgress progress_;
  std::vector<std::unique_ptr<MetricsSink>> sinks_;
  std::optional<RolloutRecord> rollouts_;  // from the first that may have ended early
  UpdateMetrics last_;
  std::optional<pipeline::PipelineReport> pipeline_;          // of the last update
  std::vector<learner::ReplicaGradients> replica_gradients_;  // see ReplicaTeam
  sync::StepSizes step_sizes_;                                // since begin()
  Clock::time_point started_;
  std::int64_t first_step_ = 0, written_update_ = 0;  // the last of metrics.jsonl
  // The update that was evaluated last, and where that was; the best mean return of an evaluation.
  std::int64_t evaluated_update_ = -1, evaluated_step_ = 0;
  std::optional<double> best_return_;
  std::optional<double> reached_;              // the mean return of an evaluation that is as large as eval.stop_at
  std::optional<LineSchedule> earlier_lines_;  // of the process that wrote the checkpoint, if there is one
};

/// Writes the summary of a run that could not be built: it failed before its first update, or where it was to go on.
void record_failed_start(const TrainPlace& place, const TrainOptions& options, const std::string& why);

/// Makes summary.json, status.json and log.txt say that the run failed and why, with the figures of the last line of
/// metrics.jsonl and `progress`: for a process that has neither the run nor its record any more, since the ranks that
/// are left could not meet. Leaves the folder as it is when its status says that the run has ended already, or when
/// another process holds it: that one goes on with the run. Throws nothing, since another error is under way; a disk
/// that refuses is told to the log, if that can be written.
void record_failure(const std::filesystem::path& folder, const TrainOptions& options, const RunProgress& progress,
                    const std::string& why);

}  // namespace tandem::app
