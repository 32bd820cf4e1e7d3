// comm/close_signal.h: tells one listener that a group was closed by a failure, whenever the two come together.
//
// Threads: all. The listener runs on the thread that gives the signal, or within listen(); it must not wait for
// anybody.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "tandem/base/mutex.h"

namespace tandem::comm {

class CloseSignal {
 public:
  using Listener = std::function<void(const std::string& why)>;

  /// Calls `listener` once: when the signal is given, or now if it was. It takes the place of an earlier one, which no
  /// longer runs when this returns; an empty one is nobody.
  void listen(Listener listener);
  /// Only the first one counts.
  void give(const std::string& why);

 private:
  Mutex mutex_;
  CondVar called_;
  Listener listener_ TANDEM_GUARDED_BY(mutex_);
  std::optional<std::string> why_ TANDEM_GUARDED_BY(mutex_);
  enum class State { kQuiet, kCalling } state_ TANDEM_GUARDED_BY(mutex_) = State::kQuiet;
};

}  // namespace tandem::comm
