// The plan of run_program(): open what is missing of the standard streams, refuse a deleted folder, promise the
// launcher a last word, set the signals that a write could raise, register the algorithms, arm a fault if one is asked
// for, read the command line, run the command, and flush. Each exception ends here.
#include "tandem/app/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "tandem/app/algo/algorithms.h"
#include "tandem/app/cli/command_line.h"
#include "tandem/app/commands/commands.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/run/early_end.h"
#include "tandem/app/run/program_name.h"
#include "tandem/app/train/isolation.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/last_word.h"
#include "tandem/base/text.h"
#include "tandem/comm/departure.h"
#include "tandem/rl/env/mujoco/mujoco_places.h"

namespace tandem::app {
namespace {

ExitCode run_command(const HelpCommand& command) {
  std::cout << command.text;
  return ExitCode::kDone;
}

// For tests, and for users who want to see for themselves what a kill or a full disk leaves behind.
void arm_fault_of_environment() {
  const char* fault = std::getenv("TANDEM_FAULT");  // NOLINT(concurrency-mt-unsafe): no other thread yet
  if (fault != nullptr && *fault != '\0') arm_fault(parse_fault(fault));
}

// Libraries read no variables. A virtual environment is active where one of the last two is set.
void tell_places_of_mujoco() {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no other thread yet
    return std::string(text == nullptr ? "" : text);
  };
  const std::string environment = variable("VIRTUAL_ENV");
  rl::set_mujoco_places({.library = variable("TANDEM_MUJOCO"),
                         .models = variable("TANDEM_MUJOCO_MODELS"),
                         .python = environment.empty() ? variable("CONDA_PREFIX") : environment,
                         .opengl = variable("MUJOCO_GL"),
                         .egl_device = variable("MUJOCO_EGL_DEVICE_ID")});
}

// The output may be all that the command was for. A reader that went away has read enough.
void require_output_written() {
  errno = 0;
  std::cout.flush();
  if (std::cout.good() || errno == EPIPE) return;
  struct stat status {};
  // A terminal that is gone answers so, too; a disk that reports damage does not come here as one.
  if (errno == EIO && ::fstat(STDOUT_FILENO, &status) == 0 && S_ISCHR(status.st_mode)) return;
  throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), "cannot write to standard output");
}

}  // namespace

int run_program(int argc, const char* const* argv, const rl::EnvRegistry& environments, const RunObserver& observer) {
  (void)open_standard_streams();
  require_current_folder();
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread yet
  const char* const last_word_to = std::getenv(kLastWordVariable);
  const LastWord last_word(last_word_to == nullptr ? "" : last_word_to);
  const EarlyEnd early_end(comm::leave_all);
  // A reader that goes away (`tandem train | head`) must not end a run.
  std::signal(SIGPIPE, SIG_IGN);
  // Nor may a file that grows beyond the limit (`ulimit -f`): the write fails, and the error says which.
  std::signal(SIGXFSZ, SIG_IGN);
  set_program_name(argc > 0 ? argv[0] : "");
  ExitCode code = ExitCode::kDone;
  register_native_algorithms();
  try {
    arm_fault_of_environment();
    tell_places_of_mujoco();
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const rl::EnvRegistry all = with_python_kinds(environments);
    // A command without a function does not compile.
    const auto run = [&](const auto& command) {
      if constexpr (requires { run_command(command, all, observer); })
        return run_command(command, all, observer);
      else if constexpr (requires { run_command(command, all); })
        return run_command(command, all);
      else
        return run_command(command);
    };
    code = std::visit(run, read_command_line(arguments));
    require_output_written();
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception());
    // Output before message, since both may go to one file.
    std::cout << std::flush;
    std::cerr << printable(failure.message) << std::flush;
    code = failure.code;
  }
  return static_cast<int>(code);
}

}  // namespace tandem::app
