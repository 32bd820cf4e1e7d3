// net/knocks.h: says on standard error who came to a door of this process and was turned away. A flood of strangers
// makes a line at first, and then one a minute with their number.
//
// Threads: all. Nothing blocks.
#pragma once
#include <chrono>
#include <string>

#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"

namespace tandem::net {

/// Which knocks make a line: the first, and then one a while, with the number of those between.
class Knocks {
 public:
  explicit Knocks(Clock::duration between_lines) : between_lines_(between_lines) {}

  /// The line to write now, or nothing.
  [[nodiscard]] std::string note(const std::string& door, const std::string& who, const std::string& why);

 private:
  const Clock::duration between_lines_;
  Mutex mutex_;
  Deadline next_ TANDEM_GUARDED_BY(mutex_) = Deadline::after({});
  int unsaid_ TANDEM_GUARDED_BY(mutex_) = 0;
};

/// `who` came to `door` ("the store at 10.0.0.1:29500") and `why` it was turned away.
void report_knock(const std::string& door, const std::string& who, const std::string& why);

}  // namespace tandem::net
