// app/commands/progress_line.h: shows on standard error how far a command is: a line that is redrawn on a terminal,
// else one now and then.
//
// Threads: single-thread. Nothing is shown of what is over at once.
#pragma once
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

#include "tandem/base/clock.h"

namespace tandem::app {

class ProgressLine {
 public:
  /// `text()` makes the line, when one is due: five times a second on a terminal, else every ten seconds. So a call
  /// costs little more than a look at the clock, and may come after every step.
  template <typename Text>
  void show(const Text& text) {
    if (Clock::now() - shown_ < (redraws_ ? kRedraw : kLine)) return;
    shown_ = Clock::now();
    std::cerr << (redraws_ ? "\r\x1b[K" : "") << "  " << text() << (redraws_ ? "" : "\n") << std::flush;
    is_on_line_ = redraws_;
  }
  /// Takes a redrawn line away. Another one may follow.
  void end() {
    if (is_on_line_) std::cerr << "\r\x1b[K" << std::flush;
    is_on_line_ = false;
  }

 private:
  static constexpr Clock::duration kRedraw = std::chrono::milliseconds(200), kLine = std::chrono::seconds(10);
  const bool redraws_ = ::isatty(STDERR_FILENO) == 1;
  bool is_on_line_ = false;
  Clock::time_point shown_ = Clock::now();
};

}  // namespace tandem::app
