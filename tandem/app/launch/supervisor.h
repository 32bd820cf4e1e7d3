// app/launch/supervisor.h: starts the ranks of a launch, watches them, and ends them together.
//
// Everything happens on the calling thread, which waits with poll() for output, ends of processes and signals.
#pragma once
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/launch/launch_report.h"

namespace tandem::app {

/// The fate of the other ranks when one fails. A death is any end other than exit code 0, unless the rank was asked to
/// stop; and exit code 0 before the rank had said that its work was over (base/last_word.h).
enum class OnDeath {
  kStop,      // they are ended too
  kContinue,  // they are left alone
  kReplace,   // they are left alone, and the rank is started again; or all are (LaunchWitness::can_be_replaced)
};

struct LaunchOptions {
  int ranks = 1;
  OnDeath on_death = OnDeath::kStop;
  /// How long ranks may take to end after they were asked to; then they are killed.
  std::chrono::milliseconds grace{30'000};
  /// With kReplace: how often each rank is started again, and how often all are, before a failure ends the run.
  int max_restarts = 3;
  std::vector<std::string> command = {};  // a path, or a program in PATH, and its arguments
};

/// The variables ("NAME=value") that tell a rank who it is. `restarts`: how often it was started again.
using VariablesOf = std::function<std::vector<std::string>(int rank, int restarts)>;

/// The duties of a launcher beyond starting its ranks. Called on the supervisor's thread.
struct LaunchWitness {
  /// Asked when all ranks have ended and some failed: what the first one to fail told the others; nothing if none did.
  std::function<std::optional<ToldFailure>()> first_failure = {};
  /// A process of a rank has ended with a failure, which `how` describes ("SIGKILL", "exit code 3"), before the rank is
  /// started again. `restarts`: which of its processes, as VariablesOf counts them.
  std::function<void(int rank, int restarts, const std::string& how)> on_failure = {};
  /// Asked before `rank` is started again: whether the others can go on with a new process of it. If not, the others
  /// are ended as by a signal, and all ranks are started again. Empty: they always can.
  std::function<bool(int rank)> can_be_replaced = {};
  /// All have ended for that, and are started again now.
  std::function<void()> on_new_attempt = {};
  /// Asked when all ranks have ended: whether what they did together is complete though some have failed.
  std::function<bool()> is_complete = {};
  /// Asked twice a second of each process that runs: whether the others have gone on without it. Such a one is killed,
  /// stopped or not, and has failed.
  std::function<bool(int rank, int restarts)> is_left_behind = {};
  /// Asked twice a second of each process that is stopped (SIGSTOP): after how long of it the process is killed, which
  /// is a failure. Nothing: others look out for it, and it may be stopped for ever. Time in which this process did not
  /// look does not count.
  std::function<std::optional<std::chrono::milliseconds>(int rank, int restarts)> patience_with_stopped = {};
  /// Asked twice a second while all processes that still run are stopped, and a rank failed after one of them was last
  /// seen running, so that nobody is left to look out for them: after how long of it they are killed, counted likewise.
  /// Nothing: after the grace.
  std::function<std::optional<std::chrono::milliseconds>()> patience_without_others = {};
};

/// Where the ranks' lines and the launcher's own words go.
struct LaunchStreams {
  int out = STDOUT_FILENO;
  int err = STDERR_FILENO;
};

/// Runs a launch and returns its exit code: 0 when every rank ended with 0, 130 after SIGINT, SIGTERM or SIGHUP, else
/// that of the first rank that failed and was not replaced (128 and the number for a signal, 3 for an end too early),
/// or 130 when none failed and some were stopped: ended with 130 themselves, or by a SIGUSR1 or SIGUSR2 that was passed
/// on. A rank that was stopped is not replaced, and the others are asked to end, whatever the options say of deaths.
/// Failures do not count when `witness` says that the work is complete all the same. A rank's lines carry "[rank] ";
/// the report of failures comes last, on the error stream.
///
/// Blocks until all ranks and what they started in their process groups are gone. When all that still run are
/// stopped (SIGSTOP), and a rank failed while one of these was or in the half second before, they are killed after
/// `witness`'s patience or the grace. SIGINT, SIGTERM and SIGHUP are passed on to the ranks, which are killed when they
/// have not ended after the grace; a SIGINT that comes 0.3 s after it, or later, kills them at once. SIGUSR1 and
/// SIGUSR2 are passed on. Throws ConfigError when the command cannot be executed and RunError when the system lacks
/// something; no rank is left then.
[[nodiscard]] int supervise(const LaunchOptions& options, const VariablesOf& variables_of,
                            const LaunchStreams& streams = {}, const LaunchWitness& witness = {});

}  // namespace tandem::app
