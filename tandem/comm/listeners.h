// comm/listeners.h: the two listeners of a group's member, Group::on_close() and Group::on_question(). Internal.
//
// Threads: all. A listener runs on the thread that calls close() or ask(), or within on_close(); it must not wait.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tandem/base/mutex.h"

namespace tandem::comm {

class Listeners {
 public:
  using OnClose = std::function<void(const std::string& why)>;
  using OnQuestion = std::function<void()>;

  /// Replaces the listener for close(); an empty one removes it. `listener` is called once: at the first close(), or
  /// now if that was before. The earlier listener is not running any more when this returns.
  void on_close(OnClose listener) {
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
  /// Reports that a failure has closed the group. Only the first call counts.
  /// The listener runs without the lock, since it may close other groups, whose listeners close this one again. A
  /// concurrent on_close() waits until it has returned.
  void close(const std::string& why) {
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

  /// Replaces the listener for ask(); an empty one removes it. The earlier one is not running any more when this
  /// returns.
  void on_question(OnQuestion listener) {
    const MutexLock lock(question_mutex_);
    on_question_ = std::move(listener);
  }
  /// Whether there is a listener for ask().
  [[nodiscard]] bool answers() const {
    const MutexLock lock(question_mutex_);
    return on_question_ != nullptr;
  }
  /// Reports that another member asks.
  /// The listener runs with the lock held, which is how on_question() waits for it. It closes nothing itself.
  void ask() {
    const MutexLock lock(question_mutex_);
    if (on_question_) on_question_();
  }

 private:
  Mutex mutex_;
  CondVar called_;
  OnClose on_close_ TANDEM_GUARDED_BY(mutex_);
  std::optional<std::string> why_ TANDEM_GUARDED_BY(mutex_);
  bool is_calling_ TANDEM_GUARDED_BY(mutex_) = false;  // the listener runs, without the lock

  mutable Mutex question_mutex_;
  OnQuestion on_question_ TANDEM_GUARDED_BY(question_mutex_);
};

}  // namespace tandem::comm
