#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>

#include "tandem/app/commands/commands.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/app/run/run_status.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/app/run/terminal.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::chrono::milliseconds kFrame{500};
constexpr int kAll = 1'000'000;
// The screen that full-screen programs use: the user's own screen comes back afterwards.
constexpr const char* kOtherScreen = "\033[?1049h";
constexpr const char* kOwnScreen = "\033[?1049l";

RunSeen look(const RunPaths& run) {
  RunSeen seen{.folder = run.folder.string(), .status = read_status(run.status())};
  if (seen.status) seen.age_s = age_of(*seen.status, run.status());
  const bool is_fresh = seen.status && (seen.status->state != kRunning || seen.age_s < kSilentAfter);
  // The lock tells a run that is slow from one that was killed; it is asked only when the status is old.
  if (!is_fresh) seen.is_in_use = RunLock::is_held(run.folder);
  return seen;
}

// Cut to the window, so that nothing wraps or scrolls.
void draw(const RunSeen& seen) {
  winsize window{};
  const bool has_size = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0;
  const std::size_t columns = has_size ? window.ws_col : 80;
  constexpr int kOtherLines = 5;  // the run, a remark, the heading, how many more, and the one below
  // The cursor goes home and lines are overwritten, each cleared to its end: clearing the screen first would flicker.
  std::string frame = "\033[H";
  std::istringstream lines(printable(top_text(seen, std::max(1, (has_size ? window.ws_row : 24) - kOtherLines))));
  for (std::string line; std::getline(lines, line);) frame += line.substr(0, columns) + "\033[K\n";
  std::cout << frame << "\033[K\n\033[J" << std::flush;
}

// Until the run has ended or the user has seen enough.
void show(const RunPaths& run) {
  const StopSignals signals;
  Mutex mutex;
  // Nobody notifies it: the wait ends by the signal's token or when the next frame is due.
  CondVar never;
  std::cout << kOtherScreen << "\033[2J";
  while (!signals.token().stop_requested() && std::cout) {
    const RunSeen seen = look(run);
    draw(seen);
    if (going(seen) == Going::kEnded) break;
    MutexLock lock(mutex);
    (void)never.wait(mutex, signals.token(), Deadline::after(kFrame), [] { return false; });
  }
  std::cout << kOwnScreen << std::flush;
}

}  // namespace

ExitCode run_command(const TopCommand& command) {
  const RunPaths run = find_run(command.run);
  if (command.frames == Frames::kMany && can_redraw(STDOUT_FILENO)) show(run);
  std::cout << printable(top_text(look(run), kAll));  // on a terminal what was seen last stays
  return ExitCode::kDone;
}

}  // namespace tandem::app
