// comm/listeners.h: the two listeners of a group's member, Group::on_close() and Group::on_question(). Internal.
//
// Threads: all. A listener runs on the thread that calls close() or ask(), and must not wait for anybody.
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

  /// Calls `listener` once: when close() is called, or now if it was. It takes the place of an earlier one, which no
  /// longer runs when this returns; an empty one is nobody.
  void on_close(OnClose listener);
  /// A failure has closed the group. Only the first call counts.
  void close(const std::string& why);

  /// The earlier listener no longer runs when this returns; an empty one is nobody.
  void on_question(OnQuestion listener);
  [[nodiscard]] bool answers() const;
  /// Another member asks.
  void ask();

 private:
  Mutex mutex_;
  CondVar called_;
  OnClose on_close_ TANDEM_GUARDED_BY(mutex_);
  std::optional<std::string> why_ TANDEM_GUARDED_BY(mutex_);
  bool is_calling_ TANDEM_GUARDED_BY(mutex_) = false;

  mutable Mutex question_mutex_;
  OnQuestion on_question_ TANDEM_GUARDED_BY(question_mutex_);
};

}  // namespace tandem::comm
