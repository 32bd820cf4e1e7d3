// app/launch/signal_inbox.h: the signals that the launcher gets, as something that poll() can wait for.
//
// Taken over until the object is destroyed: SIGINT, SIGTERM, SIGUSR1, SIGUSR2, and SIGHUP unless it is ignored (nohup).
//
// Threads: single-thread. One object at a time in a process (InvariantError).
//
// Ownership: the object owns the pipe; the handlers of before are back when it is destroyed. Signals wait in the pipe
// in the order in which they came.
#pragma once
#include <optional>

#include "tandem/base/descriptor.h"

namespace tandem::app {

class SignalInbox {
 public:
  /// Throws RunError when the system refuses.
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Readable when next() has something.
  [[nodiscard]] int descriptor() const { return reader_.get(); }
  /// The number of the next signal. Never waits.
  [[nodiscard]] std::optional<int> next();

 private:
  Descriptor reader_, writer_;
};

}  // namespace tandem::app
