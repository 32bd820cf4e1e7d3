// app/exit_code.h: how the program ends, and what it says when that is not well. The one place that maps errors to
// codes.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

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

/// Ends the process with exit code 2 and a message on standard error when its current folder was deleted or has no
/// path. LibTorch's MKL ends such a process while it is loaded, in words of its own that blame a library, so main.cc
/// has this called before any library is initialised: it uses nothing but system calls. Never blocks.
inline void require_current_folder() {
  char path[PATH_MAX];
  if (::getcwd(path, sizeof(path)) != nullptr || errno == ERANGE || errno == ENAMETOOLONG) return;  // deep, not gone
  const char* const reason = ::strerrordesc_np(errno);
  for (const std::string_view text :
       {"tandem: the current directory cannot be used: ", reason == nullptr ? "unknown error" : reason,
        "; it was probably deleted: change to one that exists (cd) and run the command again\n"}) {
    // A message that cannot be written is given up: the exit code says the same.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  ::_exit(static_cast<int>(ExitCode::kUserCanFixIt));
}

/// Opens /dev/null in the place of each of the descriptors 0 to 2 that the process was started without: the next file
/// of the run would else become its standard output. Returns how many were missing. Uses nothing but system calls, as
/// require_current_folder().
inline int open_standard_streams() {
  int missing = 0;
  int descriptor = ::open("/dev/null", O_RDWR);
  for (; descriptor >= 0 && descriptor <= STDERR_FILENO; ++missing) descriptor = ::open("/dev/null", O_RDWR);
  if (descriptor >= 0) ::close(descriptor);
  return missing;
}

}  // namespace tandem::app
