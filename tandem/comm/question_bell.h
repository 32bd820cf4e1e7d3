// comm/question_bell.h: tells one listener that another member asks, as Group::on_question() says. Internal.
//
// Threads: all. The listener runs on the thread that rings, and must not wait for anybody.
#pragma once
#include <functional>
#include <utility>

#include "tandem/base/mutex.h"

namespace tandem::comm {

class QuestionBell {
 public:
  using Listener = std::function<void()>;

  /// The earlier one no longer runs when this returns.
  void listen(Listener listener) {
    const MutexLock lock(mutex_);
    listener_ = std::move(listener);
  }
  [[nodiscard]] bool is_heard() const {
    const MutexLock lock(mutex_);
    return listener_ != nullptr;
  }
  void ring() {
    const MutexLock lock(mutex_);
    if (listener_) listener_();
  }

 private:
  mutable Mutex mutex_;
  Listener listener_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::comm
