// app/train/rank_watch.h: signs of life of all ranks, and on rank 0 the file that `tandem top` shows them from.
//
// Each rank has a thread that posts twice a second, on a progress board of all ranks, what the rank is at; rank 0's
// also writes status.json. The training itself only sets a word when it begins something else.
//
// Threads: at(), made() and end() belong to the training's thread. Blocking: the constructor waits for all ranks;
// nothing else does.
//
// Signs of life come from the watch's own thread, so they only say that the process is there; a training that is stuck
// shows as a phase that grows old. Ownership: the object holds the thread and the board.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "tandem/app/run/run_folder.h"
#include "tandem/app/run/run_log.h"
#include "tandem/app/run/run_status.h"
#include "tandem/app/run/summary.h"
#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/progress_board.h"
#include "tandem/concurrency/worker.h"
#include "tandem/learner/ranks.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::app {

class RankWatch {
 public:
  /// Collective. `run` outlives it.
  RankWatch(const rl::TrainingRun& run, const learner::Ranks& ranks);

  /// The work of this rank outside of updates. During kUpdate the run says its phase.
  enum class Stage { kStart, kUpdate, kSave };
  /// Costs one relaxed store, so it may be called between any two pieces of work.
  void at(Stage stage) { stage_.store(stage, std::memory_order_relaxed); }
  /// An update is made. Adds to sums that the next write turns into rates.
  void made(const rl::RunReport& report);

  /// On rank 0: from now on status.json is written into the folder. `known`: what does not change. A disk that refuses,
  /// or a folder that is no longer at its place, is told to the log once, and the file is then written no more.
  /// `folder` and `log` outlive the object, or end().
  void publish(const RunFolder& folder, RunStatus known, RunLog& log);
  /// Writes the last status, where any was published, and ends the watch. Waits until the thread has ended, at most for
  /// a write that is under way.
  void end(RunEnd end);

 private:
  /// The last cell of a rank, and when its beat and its phase or updates last changed, by this process's clock.
  struct Seen {
    std::uint64_t cell = 0;
    Clock::time_point sign = Clock::now(), phase = Clock::now();
  };
  void watch(const std::stop_token& stop);
  void post();
  void look() TANDEM_REQUIRES(mutex_);
  void take_rates() TANDEM_REQUIRES(mutex_);
  void write(const std::string& state);

  const rl::TrainingRun& run_;
  const int rank_;
  std::atomic<Stage> stage_{Stage::kStart};
  std::atomic<std::int64_t> updates_{0};
  std::uint64_t beats_ = 0;
  ProgressBoard board_;
  Mutex mutex_;
  CondVar never_;
  const RunFolder* folder_ TANDEM_GUARDED_BY(mutex_) = nullptr;  // null: nothing is written
  RunStatus status_ TANDEM_GUARDED_BY(mutex_);
  RunLog* log_ TANDEM_GUARDED_BY(mutex_) = nullptr;
  std::int64_t first_step_ TANDEM_GUARDED_BY(mutex_) = 0;
  Clock::time_point started_ TANDEM_GUARDED_BY(mutex_) = Clock::now();
  std::vector<Seen> seen_ TANDEM_GUARDED_BY(mutex_);
  std::vector<rl::RankReport> made_ TANDEM_GUARDED_BY(mutex_);  // by the ranks, since their rates were taken
  Worker worker_;                                               // last: it uses the others
};

}  // namespace tandem::app
