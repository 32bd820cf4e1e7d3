// Progress decides under its mutex whether an update is due, and its two derived classes draw it. The texts are pure
// functions of the numbers, so that tests need no clock and no terminal.
#include "tandem/app/run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

#include "tandem/app/run/quantity_text.h"
#include "tandem/app/run/terminal.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::string bar(double share, int width) {
  const int inner = width - 2;
  const int filled = static_cast<int>(share * inner);
  std::string text(static_cast<std::size_t>(inner), ' ');
  std::fill_n(text.begin(), filled, '=');
  if (filled < inner) text[static_cast<std::size_t>(filled)] = '>';
  return "[" + text + "]";
}

double share_done(const ProgressGoal& goal, std::int64_t env_steps) {
  if (goal.total_steps <= 0) return 0;
  return std::clamp(static_cast<double>(env_steps) / static_cast<double>(goal.total_steps), 0.0, 1.0);
}

constexpr std::size_t kShownMetrics = 2;  // of the environment's own

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
    line_ = printable(progress_line(metrics, goal, seconds_left, columns_of(descriptor_) - 1));
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
    print(printable(progress_text(metrics, goal, seconds_left, kEverything)));
  }
  void print(std::string_view line) override { write_all(descriptor_, concat(line, "\n")); }

  const int descriptor_;
};

}  // namespace

ProgressEstimate estimate(const ProgressGoal& goal, std::int64_t env_steps, double elapsed_s) {
  // A resumed run has steps that this process did not make, so the rate counts from first_step.
  const double share = share_done(goal, env_steps);
  const auto done = static_cast<double>(env_steps - goal.first_step);
  if (done <= 0) return {share, std::numeric_limits<double>::quiet_NaN()};
  const auto left = static_cast<double>(std::max<std::int64_t>(0, goal.total_steps - env_steps));
  return {share, elapsed_s / done * left};
}

std::string progress_text(const UpdateMetrics& metrics, const ProgressGoal& goal, double seconds_left, int width) {
  const double share = share_done(goal, metrics.env_steps);
  std::vector<std::string> parts{
      concat(share < 0.1 ? " " : "", static_cast<int>(share * 100), "%"),
      concat("return ", return_text(metrics, "-")),
  };
  const std::vector<MetricText> its_own = env_metrics(metrics.figures, kShownMetrics);
  for (const MetricText& metric : its_own) parts.push_back(concat(metric.name, " ", metric.value));
  parts.push_back(concat(count_text(static_cast<double>(metrics.env_steps)), "/",
                         count_text(static_cast<double>(goal.total_steps)), " steps"));
  parts.push_back(concat(count_text(metrics.env_steps_per_s), "/s"));
  parts.push_back(concat(duration_text(seconds_left), " left"));
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  std::string line;
  // The most useful parts stand first: a narrow screen loses the last ones.
  for (const std::string& part : parts) {
    const std::size_t gap = line.empty() ? 0 : 2;
    if (line.size() + gap + part.size() > columns) break;
    line += std::string(gap, ' ') + part;
  }
  return line;
}

std::string progress_line(const UpdateMetrics& metrics, const ProgressGoal& goal, double seconds_left, int width) {
  const std::string text = progress_text(metrics, goal, seconds_left, width);
  // Its width depends on the screen's alone, so that it does not move when a number gets longer.
  constexpr int kWidest = 24, kNarrowest = 8;
  const int bar_width = std::min(kWidest, width / 6);
  if (bar_width < kNarrowest || static_cast<int>(text.size()) + 2 + bar_width > width) return text;
  return bar(share_done(goal, metrics.env_steps), bar_width) + "  " + text;
}

void Progress::start(const ProgressGoal& goal) {
  const MutexLock lock(mutex_);
  goal_ = goal;
  started_ = Clock::now();
}

void Progress::update(const UpdateMetrics& metrics) {
  const MutexLock lock(mutex_);
  last_ = metrics;
  has_news_ = true;
  // The first update is shown at once: time_point::min() cannot be subtracted without an overflow.
  const bool is_due = shown_ == Clock::time_point::min() || Clock::now() - shown_ >= interval_;
  if (is_due) show_last();
}

void Progress::say(std::string_view line) {
  const MutexLock lock(mutex_);
  print(printable(line));
}

void Progress::finish() {
  const MutexLock lock(mutex_);
  if (has_news_) show_last();
  end_line();
}

void Progress::show_last() {
  const Clock::time_point now = Clock::now();
  const double elapsed_s = std::chrono::duration<double>(now - started_).count();
  show(last_, goal_, estimate(goal_, last_.env_steps, elapsed_s).seconds_left);
  shown_ = now;
  has_news_ = false;
}

std::unique_ptr<Progress> make_progress(int descriptor, Verbosity verbosity) {
  if (verbosity == Verbosity::kQuiet) return std::make_unique<Progress>(std::chrono::hours(24));
  if (can_redraw(descriptor)) return std::make_unique<TerminalProgress>(descriptor);
  return std::make_unique<PlainProgress>(descriptor);
}

}  // namespace tandem::app
