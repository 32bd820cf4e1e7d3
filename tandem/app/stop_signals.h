// app/stop_signals.h: Ctrl-C and SIGTERM as a stop token.
//
// The first signal requests a stop: the run ends after its update, with a checkpoint. The second one ends the process
// at once with code 130; what was saved before is whole.
//
// Threads: token() may be called from any thread. One object at a time in a process (InvariantError).
#pragma once
#include <optional>
#include <stop_token>

#include "tandem/concurrency/worker.h"

namespace tandem::app {

class StopSignals {
 public:
  /// Takes over SIGINT and SIGTERM until the object is destroyed. Throws RunError when the system refuses.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::optional<Worker> listener_;  // last: it uses the source
};

}  // namespace tandem::app
