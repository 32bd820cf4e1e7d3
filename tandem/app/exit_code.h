// app/exit_code.h: how the program ends, and what it says when that is not well. The one place that maps errors to
// codes.
#pragma once
#include <exception>
#include <string>

namespace tandem::app {

/// The numbers are a promise to scripts and launchers: the help text of the program lists them.
enum class ExitCode {
  kDone = 0,
  kUserCanFixIt = 2,  // ConfigError: a flag, a key, a path
  kRunFailed = 3,     // RunError: an environment, a disk, a peer; also memory and threads that the system lacks
  kDefect = 70,       // everything else is ours to fix
  kStopped = 130,     // by a signal, with a checkpoint written (app/run/stop_signals.h)
};

/// Code and message, for standard error, of an exception that ended a command.
struct Failure {
  ExitCode code;
  std::string message;  // with its last line end
};
/// An exception of an unknown type counts as a defect. The argument
/// must hold an exception.
[[nodiscard]] Failure describe_failure(const std::exception_ptr& error);

}  // namespace tandem::app
