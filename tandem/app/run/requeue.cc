// Starts scontrol without a shell, waits for its end through a pidfd with a time limit, and turns each way to fail into
// an error that names the command to type by hand.
#include "tandem/app/run/requeue.h"

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>

#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

[[noreturn]] void fail(const std::string& job, const std::string& why) {
  throw RunError(concat("the run is stopped with a checkpoint, but its job was not queued again: scontrol requeue ",
                        job, " ", why,
                        "; do it by hand where scontrol works, and see that the cluster allows it (Requeue= of ",
                        "`scontrol show job ", job, "`)"));
}

pid_t start(const std::string& job) {
  // posix_spawnp takes pointers to non-const characters, so the words are copied.
  std::string program = "scontrol", command = "requeue", number = job;
  std::array<char*, 4> arguments{program.data(), command.data(), number.data(), nullptr};
  pid_t process = -1;
  const int refused = ::posix_spawnp(&process, program.c_str(), nullptr, nullptr, arguments.data(), environ);
  if (refused != 0) fail(job, concat("cannot be started: ", std::generic_category().message(refused)));
  return process;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Requeued requeue_job(std::chrono::milliseconds patience) {
  const char* variable = std::getenv("SLURM_JOB_ID");  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  if (variable == nullptr || *variable == '\0') return Requeued::kNotUnderSlurm;
  const std::string job = variable;
  const pid_t process = start(job);
  const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  pollfd waited{end.get(), POLLIN, 0};
  // A kernel without pidfd_open gives no descriptor: the wait below then has no limit.
  if (end.is_open() && ::poll(&waited, 1, static_cast<int>(patience.count())) == 0) {
    ::kill(process, SIGKILL);
    (void)wait_for(process);
    fail(job, concat("has not ended within ", patience.count(), " ms and was killed"));
  }
  const int status = wait_for(process);
  if (WIFSIGNALED(status)) fail(job, concat("was ended by signal ", WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) fail(job, concat("ended with exit code ", WEXITSTATUS(status)));
  return Requeued::kDone;
}

}  // namespace tandem::app
