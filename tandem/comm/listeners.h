// comm/listeners.h: the two listeners of a group's member, Group::on_close() and Group::on_question(). Internal.
//
// Threads: all. A listener runs on the thread that calls close() or ask(), or within on_close(); it must not wait.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "tandem/base/mutex.h"

namespace tandem::comm {

class Listeners {
 public:
  using OnClose = std::function<void(const std::string& why)>;
  using OnQuestion = std::function<void()>;

  /// Replaces the listener for close(); an empty one removes it. `listener` is called once: at the first close(), or
  /// now if that was before. The earlier listener is not running any more when this returns.
  void on_close(OnClose listener);
  /// Reports that a failure has closed the group. Only the first call counts.
  void close(const std::string& why);

  /// Replaces the listener for ask(); an empty one removes it. The earlier one is not running any more when this
  /// returns.
  void on_question(OnQuestion listener);
  /// Whether there is a listener for ask().
  [[nodiscard]] bool answers() const;
  /// Reports that another member asks.
  void ask();

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
