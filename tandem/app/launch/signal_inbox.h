// app/launch/signal_inbox.h: the signals that a launcher gets, as something that poll() can wait for.
//
// Taken over until the object is destroyed: SIGINT, SIGTERM, SIGUSR1, SIGUSR2, and SIGHUP unless it is ignored (nohup).
// Signals wait in a pipe in the order in which they came; of thousands that come at once some are lost. Afterwards
// those that would end the process do nothing: one that comes when all has ended must not make the launch look killed.
//
// Threads: single-thread. One object at a time in a process (InvariantError).
#pragma once
#include <unistd.h>

#include <optional>

#include "tandem/base/descriptor.h"

namespace tandem::app {

class SignalInbox {
 public:
  /// Throws RunError when the system gives no pipe.
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Readable when next() has something.
  [[nodiscard]] int descriptor() const { return reader_.get(); }
  /// The number of the next signal. Never waits.
  [[nodiscard]] std::optional<int> next() {
    unsigned char byte = 0;
    return ::read(reader_.get(), &byte, 1) == 1 ? std::optional<int>(byte) : std::nullopt;
  }

 private:
  Descriptor reader_, writer_;
};

}  // namespace tandem::app
