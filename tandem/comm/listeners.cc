#include "tandem/comm/listeners.h"

#include <utility>

namespace tandem::comm {

void Listeners::on_close(OnClose listener) {
  std::optional<std::string> why;
  {
    const MutexLock lock(mutex_);
    called_.wait(mutex_, Deadline::infinite(), [&]() TANDEM_REQUIRES(mutex_) { return !is_calling_; });
    if (!why_ || !listener) {
      on_close_ = std::move(listener);
      return;
    }
    why = why_;
  }
  listener(*why);
}

// The listener runs without the lock, since it may close other groups, whose listeners close this one again. A
// concurrent on_close() waits until it has returned.
void Listeners::close(const std::string& why) {
  OnClose listener;
  {
    const MutexLock lock(mutex_);
    if (why_) return;
    why_ = why;
    listener = std::exchange(on_close_, {});
    if (!listener) return;
    is_calling_ = true;
  }
  listener(why);
  {
    const MutexLock lock(mutex_);
    is_calling_ = false;
  }
  called_.notify_all();
}

void Listeners::on_question(OnQuestion listener) {
  const MutexLock lock(question_mutex_);
  on_question_ = std::move(listener);
}

bool Listeners::answers() const {
  const MutexLock lock(question_mutex_);
  return on_question_ != nullptr;
}

// The listener runs with the lock held, which is how on_question() waits for it. It closes nothing itself.
void Listeners::ask() {
  const MutexLock lock(question_mutex_);
  if (on_question_) on_question_();
}

}  // namespace tandem::comm
