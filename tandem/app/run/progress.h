// app/run/progress.h: shows a run while it goes: a line that is redrawn on a terminal, a plain line now and then
// elsewhere, or nothing.
//
// Threads: all; calls are serialised.
//
// Each kind shows at most one update per interval and drops those between; finish() shows the last one in any case.
// Calls write under the mutex, so a slow terminal holds up the thread that reports.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tandem/app/run/update_metrics.h"
#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"

namespace tandem::app {

/// The goal of a run, shown beside the numbers of an update.
struct ProgressGoal {
  std::int64_t total_steps = 0;
  std::int64_t first_step = 0;  // where this process began: more than 0 after a resume
};

/// How far a run is: share done, and seconds until its end at the rate of this process so far.
struct ProgressEstimate {
  double share = 0;         // from 0 to 1
  double seconds_left = 0;  // NaN before the first step
};
/// Divides by the steps of this process, not by all steps: the time that an earlier process took is not known.
/// `elapsed_s` is in seconds since Progress::start().
[[nodiscard]] ProgressEstimate estimate(const ProgressGoal& goal, std::int64_t env_steps, double elapsed_s);

/// "42%  return 187.3  42.0k/100k steps  18.3k/s  0:03 left", as many of these parts as fit into `width` columns.
/// Policies whose returns sum to zero are shown one by one, see return_text(). Behind the return stand the first two
/// metrics of the environment's own: "success 0.9300".
[[nodiscard]] std::string progress_text(const UpdateMetrics& metrics, const ProgressGoal& goal, double seconds_left,
                                        int width);
/// Puts a bar before the line where there is room.
[[nodiscard]] std::string progress_line(const UpdateMetrics& metrics, const ProgressGoal& goal, double seconds_left,
                                        int width);

/// Decides when to show; derived classes decide how, and without one nothing is shown. They are called with the mutex
/// held and must not call back.
class Progress {
 public:
  /// `interval` is the least time between two updates that are shown; the first one is shown at once.
  explicit Progress(Clock::duration interval) : interval_(interval) {}
  virtual ~Progress() = default;

  /// Sets the goal and starts the clock that the estimate of the remaining time uses.
  void start(const ProgressGoal& goal);
  /// An update is done.
  void update(const UpdateMetrics& metrics);
  /// A line of its own, above the progress where that is redrawn. Control characters in it are shown, not obeyed.
  void say(std::string_view line);
  /// The last update stays on the screen. Also called by nobody but the end of the run.
  void finish();

 protected:
  virtual void show(const UpdateMetrics& /*metrics*/, const ProgressGoal& /*goal*/, double /*seconds_left*/) {}
  virtual void print(std::string_view /*line*/) {}
  virtual void end_line() {}

 private:
  void show_last() TANDEM_REQUIRES(mutex_);

  const Clock::duration interval_;
  Mutex mutex_;
  ProgressGoal goal_ TANDEM_GUARDED_BY(mutex_);
  UpdateMetrics last_ TANDEM_GUARDED_BY(mutex_);
  bool has_news_ TANDEM_GUARDED_BY(mutex_) = false;  // an update that was not shown
  Clock::time_point started_ TANDEM_GUARDED_BY(mutex_) = Clock::now();
  Clock::time_point shown_ TANDEM_GUARDED_BY(mutex_) = Clock::time_point::min();
};

/// kQuiet shows nothing (--quiet); errors are printed all the same.
enum class Verbosity { kProgress, kQuiet };

/// The kind that fits the file behind `descriptor` (1 for standard output), which must stay open. A reader that goes
/// away (a closed pipe) does not end the run: nothing more is shown then.
[[nodiscard]] std::unique_ptr<Progress> make_progress(int descriptor, Verbosity verbosity);

}  // namespace tandem::app
