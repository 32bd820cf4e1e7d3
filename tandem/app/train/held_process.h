// app/train/held_process.h: what belongs to the process and a run relies on, held against libraries that take it for
// their own: signals, standard streams, rounding. The current folder is theirs: a run's paths do not depend on it.
//
// Threads: that of the training.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "tandem/app/run/stop_signals.h"
#include "tandem/base/rounding.h"

namespace tandem::app {

class HeldProcess {
 public:
  /// Puts back what was changed since the last call, and tells of it. Called after each update; costs a dozen system
  /// calls.
  void hold(const StopSignals& signals, const std::function<void(const std::string&)>& tell);

 private:
  const std::int64_t roundings_ = KeptRounding::restored();  // before the first step
  bool has_told_of_rounding_ = false;
};

}  // namespace tandem::app
