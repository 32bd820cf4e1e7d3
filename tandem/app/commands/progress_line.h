// app/commands/progress_line.h: shows on standard error how far a command is: a line that is redrawn on a terminal,
// else one now and then. Standard output is left to the command's result.
//
// Threads: single-thread.
#pragma once
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

#include "tandem/app/run/terminal.h"
#include "tandem/base/clock.h"
#include "tandem/base/text.h"

namespace tandem::app {

class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { end(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `line` now: for commands that have few of them.
  void show_now(const std::string& line) {
    shown_ = Clock::now();
    const std::string shown = printable(line);
    std::cerr << (redraws_ ? concat("\r\x1b[K", shown) : concat(shown, "\n")) << std::flush;
    is_on_line_ = redraws_;
  }
  /// `text()` makes the line, when one is due: five times a second on a terminal, else every ten seconds. So a call
  /// costs little more than a look at the clock, and may come after every step. Nothing is shown of what is over at
  /// once.
  template <typename Text>
  void show(const Text& text) {
    if (Clock::now() - shown_ < (redraws_ ? kRedraw : kLine)) return;
    show_now(concat("  ", text()));
  }
  /// Takes a redrawn line away. Another one may follow.
  void end() {
    if (is_on_line_) std::cerr << "\r\x1b[K" << std::flush;
    is_on_line_ = false;
  }

 private:
  static constexpr Clock::duration kRedraw = std::chrono::milliseconds(200), kLine = std::chrono::seconds(10);
  const bool redraws_ = can_redraw(STDERR_FILENO);
  bool is_on_line_ = false;
  Clock::time_point shown_ = Clock::now();
};

}  // namespace tandem::app
