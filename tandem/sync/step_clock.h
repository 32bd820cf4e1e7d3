// sync/step_clock.h: measures the steps of a DataParallel (data_parallel_report.h). A step costs it a reading of the
// clock at each end of a pass and at the step's end, and no memory.
//
// Threads: single-thread.
#pragma once
#include <cstdint>

#include "tandem/base/clock.h"
#include "tandem/sync/data_parallel_report.h"

namespace tandem::sync {

class StepClock {
 public:
  /// The program's own part ends: what it did since the step's begin, or since its last pass, was forward.
  void begin_pass() { step_.forward_seconds += lap(); }
  void end_pass() { step_.backward_seconds += lap(); }
  /// The step is done. What its exchange took is in the seconds that have passed already.
  void end_step(double exposed_seconds, double hidden_seconds, std::int64_t bytes);
  /// Between steps: the next one begins now.
  void restart() {
    step_ = {};
    begin_ = mark_ = Clock::now();
  }

  /// Writes steps, mean and last into `report`, and counts from zero on. The step that is under way goes on.
  void take(DataParallelReport& report);

 private:
  double lap();

  Clock::time_point begin_ = Clock::now(), mark_ = begin_;  // of this step; of its last pass's begin or end
  StepCosts step_{}, sum_{}, last_{};                       // of this step so far; since take(); of the last step
  std::int64_t steps_ = 0;                                  // since take()
};

}  // namespace tandem::sync
