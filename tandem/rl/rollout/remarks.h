// rl/rollout/remarks.h: sentences for the log of a run, from wherever it samples.
//
// Threads: all.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/mutex.h"

namespace tandem::rl {

class Remarks {
 public:
  void add(std::string sentence) {
    const MutexLock lock(mutex_);
    sentences_.push_back(std::move(sentence));
  }
  /// Those since the last call.
  [[nodiscard]] std::vector<std::string> take() {
    const MutexLock lock(mutex_);
    return std::exchange(sentences_, {});
  }

 private:
  Mutex mutex_;
  std::vector<std::string> sentences_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::rl
