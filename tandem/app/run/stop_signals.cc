#include "tandem/app/run/stop_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>
#include <utility>

#include "tandem/app/exit_code.h"
#include "tandem/base/check.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// Note [The way of a signal]
// A handler may hardly do anything, and not request a stop: that takes locks. So it writes a byte into a pipe, which a
// thread reads. The thread ends at the byte that the destructor writes, and with it the process at the byte for a last
// act.
constexpr char kSignal = 's', kLastAct = 'l', kEnd = 'e';
constexpr std::array<int, 5> kSignals{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

std::array<int, 2> pipe_ends{-1, -1};  // to read, to write
std::array<struct sigaction, kSignals.size()> before;
std::atomic<StopRequest> request{StopRequest::kNone};
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_at{0};          // in nanoseconds of the monotonic clock
constexpr std::int64_t kSameAct = 300'000'000;  // nanoseconds within which signals are one wish
std::atomic<bool> has_last_act{false};          // which has not begun
std::atomic<bool> in_use{false};
static_assert(std::atomic<StopRequest>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "the handler uses them");

void write_byte(char byte) { [[maybe_unused]] const ssize_t written = ::write(pipe_ends[1], &byte, 1); }

[[noreturn]] void end_at_once() {
  constexpr char kText[] = "\ntandem: ended at once; the last checkpoint is whole\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(static_cast<int>(ExitCode::kStopped));
}

std::int64_t nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Runs in a signal handler: only atomics without a lock, clock_gettime, write and _exit are allowed here. The first
// signal requests the stop; a SIGINT from kSameAct on after it triggers the last act, and one more ends the process.
void on_signal(int number) {
  // The interrupted code may be about to read errno.
  const int saved = errno;
  const StopRequest wanted = number == SIGUSR1 ? StopRequest::kRequeue : StopRequest::kEnd;
  StopRequest earlier = request;
  // A signal may only raise the request; a handler on another thread may raise it at the same time.
  while (earlier < wanted && !request.compare_exchange_weak(earlier, wanted)) {
  }
  if (earlier == StopRequest::kNone) {
    first_signal = number;
    first_at = nanoseconds_now();
    write_byte(kSignal);
  } else if (number == SIGINT && nanoseconds_now() - first_at >= kSameAct) {
    if (has_last_act.exchange(false)) {
      write_byte(kLastAct);
    } else {
      end_at_once();
    }
  }
  errno = saved;
}

// In the place of a default that ends the process. It is no SIG_IGN, which programs that this process starts would
// inherit, and which would look like nohup to the next StopSignals.
void pass_over(int) {}

// SIGHUP that is ignored from the start stays so: nohup asks for it.
bool is_left_alone(std::size_t i) { return kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN; }

void take_over(int number, struct sigaction* earlier) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  // No handler of these signals interrupts another on the same thread.
  for (const int each : kSignals) sigaddset(&action.sa_mask, each);
  ::sigaction(number, &action, earlier);
}

void open_pipe() {
  TANDEM_CHECK(!in_use, "there are two StopSignals");
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    throw RunError(concat("the system gives no pipe: ", std::generic_category().message(errno)));
  }
  in_use = true;
}

// The listener's thread: takes no lock of its own and ends with the byte of the destructor, or with the process.
void listen(std::stop_source& source, const std::function<void()>& last_act) {
  for (char byte = 0; byte != kEnd;) {
    const ssize_t size = ::read(pipe_ends[0], &byte, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    if (byte == kSignal) source.request_stop();
    if (byte == kLastAct) {
      last_act();
      end_at_once();
    }
  }
}

[[noreturn]] void fail_to_requeue(const std::string& job, const std::string& why) {
  throw RunError(concat("the run is stopped with a checkpoint, but its job was not queued again: scontrol requeue ",
                        job, " ", why,
                        "; do it by hand where scontrol works, and see that the cluster allows it (Requeue= of ",
                        "`scontrol show job ", job, "`)"));
}

pid_t start_scontrol(const std::string& job) {
  // posix_spawnp takes pointers to non-const characters, so the words are copied.
  std::string program = "scontrol", command = "requeue", number = job;
  std::array<char*, 4> arguments{program.data(), command.data(), number.data(), nullptr};
  pid_t process = -1;
  const int refused = ::posix_spawnp(&process, program.c_str(), nullptr, nullptr, arguments.data(), environ);
  if (refused != 0) fail_to_requeue(job, concat("cannot be started: ", std::generic_category().message(refused)));
  return process;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

StopSignals::StopSignals(std::function<void()> last_act) : last_act_(std::move(last_act)) {
  open_pipe();
  has_last_act = last_act_ != nullptr;
  listener_.emplace("tandem-signals", [this](const std::stop_token&) { listen(source_, last_act_); });
  request = StopRequest::kNone;
  first_signal = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    take_over(kSignals[i], &before[i]);
    if (is_left_alone(i)) ::sigaction(kSignals[i], &before[i], nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    // See the destructor's promise in the header: a late signal must not make a finished process look killed.
    if (before[i].sa_handler == SIG_DFL) before[i].sa_handler = pass_over;
    ::sigaction(kSignals[i], &before[i], nullptr);
  }
  write_byte(kEnd);
  listener_->join();
  for (int& end : pipe_ends) {
    ::close(end);
    end = -1;
  }
  in_use = false;
}

StopRequest StopSignals::asked() const { return request; }

int StopSignals::first() const { return first_signal; }

// The number stays when the object is gone, until the next one is made.
int last_stop_signal() { return first_signal; }

std::vector<int> StopSignals::take_back() const {
  std::vector<int> taken;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    ::sigaction(kSignals[i], nullptr, &now);
    if (is_left_alone(i) || now.sa_handler == on_signal) continue;
    take_over(kSignals[i], nullptr);
    taken.push_back(kSignals[i]);
  }
  return taken;
}

// Starts scontrol without a shell, waits for its end through a pidfd with a time limit, and turns each way to fail into
// an error that names the command to type by hand.
Requeued requeue_job(std::chrono::milliseconds patience) {
  const char* variable = std::getenv("SLURM_JOB_ID");  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  if (variable == nullptr || *variable == '\0') return Requeued::kNotUnderSlurm;
  const std::string job = variable;
  const pid_t process = start_scontrol(job);
  const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  pollfd waited{end.get(), POLLIN, 0};
  // A kernel without pidfd_open gives no descriptor: the wait below then has no limit.
  if (end.is_open() && ::poll(&waited, 1, static_cast<int>(patience.count())) == 0) {
    ::kill(process, SIGKILL);
    (void)wait_for(process);
    fail_to_requeue(job, concat("has not ended within ", patience.count(), " ms and was killed"));
  }
  const int status = wait_for(process);
  if (WIFSIGNALED(status)) fail_to_requeue(job, concat("was ended by signal ", WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) fail_to_requeue(job, concat("ended with exit code ", WEXITSTATUS(status)));
  return Requeued::kDone;
}

}  // namespace tandem::app
