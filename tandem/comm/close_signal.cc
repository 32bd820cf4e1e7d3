#include "tandem/comm/close_signal.h"

#include <utility>

namespace tandem::comm {

void CloseSignal::listen(Listener listener) {
  std::optional<std::string> why;
  {
    const MutexLock lock(mutex_);
    called_.wait(mutex_, Deadline::infinite(), [&]() TANDEM_REQUIRES(mutex_) { return state_ == State::kQuiet; });
    if (!why_ || !listener) {
      listener_ = std::move(listener);
      return;
    }
    why = why_;
  }
  listener(*why);
}

// Not under the lock: what closes one group may close others, and those this one again.
void CloseSignal::give(const std::string& why) {
  Listener listener;
  {
    const MutexLock lock(mutex_);
    if (why_) return;
    why_ = why;
    listener = std::exchange(listener_, {});
    if (!listener) return;
    state_ = State::kCalling;
  }
  listener(why);
  {
    const MutexLock lock(mutex_);
    state_ = State::kQuiet;
  }
  called_.notify_all();
}

}  // namespace tandem::comm
