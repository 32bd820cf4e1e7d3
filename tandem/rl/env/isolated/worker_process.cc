// The process is started by fork and exec with two pipes: its output, and one that reports a failed exec and is closed
// by a successful one. The thread that keeps it then waits for output, for the end of the process, which a pidfd shows,
// and for the next look at its memory.
#include "tandem/rl/env/isolated/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/forked_program.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/isolated/region_layout.h"

namespace tandem::rl {
namespace {

// Above the numbers at which a worker finds its own, so that none of these is overwritten before it is copied.
constexpr int kFirstFree = 16;
constexpr std::size_t kLongestLine = 4096;
constexpr int kMemoryLookMs = 200;
// Users and schedulers send these to all processes of a training.
constexpr std::array kNotForWorkers{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

[[noreturn]] void refuse_process(const char* what) {
  throw RunError(concat("the system gives no ", what,
                        " for a worker process of environments: ", std::generic_category().message(errno),
                        "; use fewer shards, or raise the limits that ", "`ulimit -a` shows"));
}

struct Ends {
  Descriptor reader, writer;
};
Ends make_ends() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) refuse_process("pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}
// A file of its own for each process, since those that share one share the place up to which it is read.
Descriptor input_of(const std::string& text) {
  if (text.empty()) return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor file(::memfd_create("tandem-input", MFD_CLOEXEC));
  if (!file.is_open() || ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    refuse_process("memory");
  return file;
}
Descriptor high(int descriptor) {
  Descriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstFree));
  if (!copy.is_open()) refuse_process("descriptor");
  return copy;
}

std::vector<std::string> environment_without(const std::vector<std::string>& names) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::find(names, name) == names.end()) variables.emplace_back(text);
  }
  return variables;
}

// All that the child needs, made before the fork: after it, there are only system calls.
struct Parts {
  std::vector<char*> arguments, environment;
  pid_t training;
  int socket, memory, input, output, failure;
};

// Asks the system to end this process before the training where memory is short.
void offer_itself() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  [[maybe_unused]] const ssize_t written = ::write(file, "1000", 4);
  ::close(file);
}

[[noreturn]] void become_worker(const Parts& parts) {
  reset_signals();
  ::setpgid(0, 0);  // Ctrl-C is not for it, though a library may restore what that signal does
  for (const int number : kNotForWorkers) {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(number, &ignore, nullptr);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parts.training) ::_exit(127);  // it died before the line above
  offer_itself();
  ::dup2(parts.input, STDIN_FILENO);
  ::dup2(parts.output, STDOUT_FILENO);
  ::dup2(parts.output, STDERR_FILENO);
  ::dup2(parts.socket, kWorkerSocket);
  ::dup2(parts.memory, kWorkerMemory);
  // Nothing else of the training's, such as pipes whose end somebody waits for; what cannot be closed so has CLOEXEC.
  ::close_range(kWorkerMemory + 1, static_cast<unsigned>(parts.failure) - 1, 0);
  ::close_range(static_cast<unsigned>(parts.failure) + 1, ~0U, 0);
  become_program(parts.arguments, parts.environment, parts.failure);
  ::_exit(127);
}

// Waits for the process and says how it ended.
std::string reaped(pid_t id) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(id, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) return "ended, and a library of the training took its exit code";
  if (!WIFSIGNALED(status)) return concat("ended with exit code ", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return name == nullptr ? concat("was killed by signal ", WTERMSIG(status)) : concat("was killed by SIG", name);
}

// Memory that the process shares with nobody, in bytes; 0 where the system does not say.
std::uint64_t own_memory(pid_t id) {
  std::ifstream file(concat("/proc/", id, "/status"));
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kKey = "RssAnon:";
    if (!line.starts_with(kKey)) continue;
    std::uint64_t kib = 0;
    reader_of(line.substr(kKey.size())) >> kib;
    return kib * 1024;
  }
  return 0;
}

void kill_by(const Descriptor& exit_event) { ::syscall(SYS_pidfd_send_signal, exit_event.get(), SIGKILL, nullptr, 0); }

}  // namespace

WorkerProcess::WorkerProcess(Start start)
    : start_(std::move(start)), keeper_("env keeper", [this](const std::stop_token& /*stop*/) { keep(); }) {
  id_ = started_.get_future().get();
}

WorkerProcess::~WorkerProcess() { (void)end({}); }

WorkerProcess::Started WorkerProcess::launch() const {
  Ends output = make_ends(), failure = make_ends();
  const Descriptor socket = high(start_.socket), memory = high(start_.memory), out = high(output.writer.get());
  const Descriptor input = input_of(start_.input), in = high(input.get());
  Descriptor report = high(failure.writer.get());
  failure.writer.close();
  std::vector<std::string> arguments = start_.command;
  std::vector<std::string> environment = environment_without(start_.without_variables);
  const Parts parts{.arguments = pointers_to(arguments),
                    .environment = pointers_to(environment),
                    .training = ::getpid(),
                    .socket = socket.get(),
                    .memory = memory.get(),
                    .input = in.get(),
                    .output = out.get(),
                    .failure = report.get()};
  Started started;
  {
    const BlockedSignals blocked;
    started.id = ::fork();
    if (started.id == 0) become_worker(parts);
  }
  if (started.id < 0) refuse_process("process");
  report.close();
  started.exit_event = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, started.id, 0)));
  const int no_event = started.exit_event.is_open() ? 0 : errno;
  const int not_started = wait_for_start(failure.reader.get());
  if (no_event != 0 || not_started != 0) {
    ::kill(started.id, SIGKILL);
    (void)reaped(started.id);
    errno = no_event;
    if (no_event != 0) refuse_process("handle");
    throw ConfigError(concat("the worker program '", start_.command.front(),
                             "' cannot be started: ", std::generic_category().message(not_started)));
  }
  started.output = std::move(output.reader);
  ::fcntl(started.output.get(), F_SETFL, O_NONBLOCK);
  return started;
}

void WorkerProcess::keep() {
  try {
    its_ = launch();
  } catch (...) {
    started_.set_exception(std::current_exception());
    return;
  }
  const pid_t id = its_.id;
  started_.set_value(id);
  std::string fault;
  try {
    watch();
    if (start_.on_end) start_.on_end();
    (void)take_output();
    if (!line_.empty()) tell(line_);
  } catch (const std::exception& error) {  // as of a line for which there is no memory
    fault = error.what();
  }
  // Before the leader of the group is waited for: until then nobody else can get its number.
  ::kill(-id, SIGKILL);
  how_ = reaped(id);
  if (!fault.empty()) how_ = concat("was killed, since what it prints could not be handed on: ", fault, ",");
  if (took_ > 0) {
    how_ = concat("had ", took_ >> 20, " MiB of its own, and ", start_.most_memory >> 20,
                  " are allowed (env_memory_mb), so it was killed");
  }
}

// Returns when the process has ended.
void WorkerProcess::watch() {
  bool prints = true;  // it may close its output and live on
  for (;;) {
    std::array<pollfd, 2> waits{pollfd{its_.exit_event.get(), POLLIN, 0},
                                pollfd{prints ? its_.output.get() : -1, POLLIN, 0}};
    const int ready = ::poll(waits.data(), waits.size(), start_.most_memory > 0 ? kMemoryLookMs : -1);
    if (ready < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) prints = take_output();
    if (waits[0].revents != 0) return;
    if (start_.most_memory > 0) look_at_memory();
  }
}

// Not more than a mebibyte at once, so that a process that prints without end does not keep its keeper from the rest.
bool WorkerProcess::take_output() {
  std::array<char, 16384> bytes{};
  for (int reads = 0; reads < 64; ++reads) {
    const ssize_t size = ::read(its_.output.get(), bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size < 0 && errno == EAGAIN;
    for (const char byte : std::string_view(bytes.data(), static_cast<std::size_t>(size))) {
      if (byte != '\n') line_ += byte;
      if (byte != '\n' && line_.size() < kLongestLine) continue;
      tell(line_);
      line_.clear();
    }
  }
  return true;
}

void WorkerProcess::tell(const std::string& line) const {
  if (!start_.tell) return;
  try {
    start_.tell(its_.id, line);
  } catch (...) {
    return;  // a line is lost, and nothing else
  }
}

void WorkerProcess::look_at_memory() {
  const std::uint64_t has = own_memory(its_.id);
  if (has <= start_.most_memory || took_ > 0) return;
  took_ = has;
  kill_by(its_.exit_event);
}

std::string WorkerProcess::end(Clock::duration patience) {
  if (!keeper_.finished()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
    pollfd wait{its_.exit_event.get(), POLLIN, 0};
    int ready = 0;
    do {
      ready = ::poll(&wait, 1, static_cast<int>(left));
    } while (ready < 0 && errno == EINTR);
    is_killed_ = ready <= 0;
    if (is_killed_) kill_by(its_.exit_event);
  }
  keeper_.join();
  return is_killed_ && took_ == 0 ? "was killed by the training" : how_;
}

}  // namespace tandem::rl
