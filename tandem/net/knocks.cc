#include "tandem/net/knocks.h"

#include <iostream>

#include "tandem/base/text.h"

namespace tandem::net {

std::string Knocks::note(const std::string& door, const std::string& who, const std::string& why) {
  const MutexLock lock(mutex_);
  ++unsaid_;
  if (!next_.expired()) return "";
  next_ = Deadline::after(between_lines_);
  const std::string more = unsaid_ == 1 ? "" : concat(" (", unsaid_, " since the last such line)");
  unsaid_ = 0;
  return concat("tandem: warning: ", who, " came to ", door, " and was turned away: it ", why, more, "\n");
}

// The doors of a process share it: a flood goes to all of them.
void report_knock(const std::string& door, const std::string& who, const std::string& why) {
  static Knocks knocks{std::chrono::minutes(1)};
  std::cerr << knocks.note(door, who, why);
}

}  // namespace tandem::net
