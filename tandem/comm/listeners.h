// comm/listeners.h: the listeners of a group's member, Group::on_close() and Group::on_question(). Internal.
//
// Threads: all. A listener runs on the thread that calls close() or ask(), or within on_close(); it must not wait.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tandem/base/mutex.h"
#include "tandem/comm/listening.h"

namespace tandem::comm {

class Listeners {
 public:
  using OnClose = std::function<void(const std::string& why)>;
  using OnQuestion = std::function<void()>;

  /// Adds a listener for close(). It is called once: at the first close(), or now if that was before.
  Listening on_close(OnClose listener) {
    std::optional<std::string> why;
    {
      const MutexLock lock(mutex_);
      wait_for_calls();
      if (!why_) {
        const std::uint64_t number = next_++;
        on_close_.emplace(number, std::move(listener));
        return Listening([this, number] { remove(number); });
      }
      why = why_;
    }
    listener(*why);
    return {};
  }
  /// Reports that a failure has closed the group. Only the first call counts.
  /// Listeners run without the lock, since they may close other groups, whose listeners close this one again. A
  /// concurrent on_close(), or end of a Listening, waits until all have returned.
  void close(const std::string& why) {
    std::map<std::uint64_t, OnClose> listeners;
    {
      const MutexLock lock(mutex_);
      if (why_) return;
      why_ = why;
      listeners = std::exchange(on_close_, {});
      if (listeners.empty()) return;
      is_calling_ = true;
    }
    for (const auto& [number, listener] : listeners) listener(why);
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
  void remove(std::uint64_t number) {
    const MutexLock lock(mutex_);
    wait_for_calls();
    on_close_.erase(number);
  }
  void wait_for_calls() TANDEM_REQUIRES(mutex_) {
    called_.wait(mutex_, Deadline::infinite(), [&]() TANDEM_REQUIRES(mutex_) { return !is_calling_; });
  }

  Mutex mutex_;
  CondVar called_;
  std::map<std::uint64_t, OnClose> on_close_ TANDEM_GUARDED_BY(mutex_);  // in the order of registration
  std::uint64_t next_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::optional<std::string> why_ TANDEM_GUARDED_BY(mutex_);
  bool is_calling_ TANDEM_GUARDED_BY(mutex_) = false;  // listeners run, without the lock

  mutable Mutex question_mutex_;
  OnQuestion on_question_ TANDEM_GUARDED_BY(question_mutex_);
};

}  // namespace tandem::comm
