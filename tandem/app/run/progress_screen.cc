// The three ways to show progress.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "tandem/app/run/progress.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using std::chrono::milliseconds;

// Writes all of it, or gives up silently: a reader that went away is no reason to lose a run.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Asked for at every line, since the window may have changed.
int columns_of(int descriptor) {
  constexpr int kUsual = 80;
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

// Redraws one line in place.
class TerminalProgress final : public Progress {
 public:
  explicit TerminalProgress(int descriptor) : Progress(milliseconds(100)), descriptor_(descriptor) {}

 private:
  // One column stays free: a full line would wrap, and the next one could not be drawn over it.
  void show(const UpdateMetrics& metrics, const ProgressGoal& goal, double seconds_left) override {
    line_ = progress_line(metrics, goal, seconds_left, columns_of(descriptor_) - 1);
    write_all(descriptor_, concat(kClear, line_));
  }
  void print(std::string_view line) override { write_all(descriptor_, concat(kClear, line, "\n", line_)); }
  void end_line() override {
    if (!line_.empty()) write_all(descriptor_, "\n");
    line_.clear();
  }

  static constexpr std::string_view kClear = "\r\033[K";
  const int descriptor_;
  std::string line_;  // that stands on the screen
};

// A file or a pipe gets a whole line every five seconds, without a limit on its width.
class PlainProgress final : public Progress {
 public:
  explicit PlainProgress(int descriptor) : Progress(std::chrono::seconds(5)), descriptor_(descriptor) {}

 private:
  void show(const UpdateMetrics& metrics, const ProgressGoal& goal, double seconds_left) override {
    constexpr int kEverything = 1000;
    print(progress_text(metrics, goal, seconds_left, kEverything));
  }
  void print(std::string_view line) override { write_all(descriptor_, concat(line, "\n")); }
  void end_line() override {}

  const int descriptor_;
};

// Shows nothing; the interval only keeps the base class from calling show() for each update.
class QuietProgress final : public Progress {
 public:
  QuietProgress() : Progress(std::chrono::hours(24)) {}

 private:
  void show(const UpdateMetrics&, const ProgressGoal&, double) override {}
  void print(std::string_view) override {}
  void end_line() override {}
};

}  // namespace

std::unique_ptr<Progress> make_progress(int descriptor, Verbosity verbosity) {
  if (verbosity == Verbosity::kQuiet) return std::make_unique<QuietProgress>();
  if (::isatty(descriptor) == 1) return std::make_unique<TerminalProgress>(descriptor);
  return std::make_unique<PlainProgress>(descriptor);
}

}  // namespace tandem::app
