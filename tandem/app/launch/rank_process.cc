// A rank is started by fork and exec with four pipes: its output, its errors, its last word, and one that reports a
// failed exec. The latter is closed by a successful exec, so its end tells the launcher that the program itself runs.
#include "tandem/app/launch/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/forked_program.h"
#include "tandem/base/last_word.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

struct Pipe {
  Descriptor reader, writer;
};

[[noreturn]] void refuse(const char* what) {
  throw RunError(concat("the system gives no ", what, ": ", std::generic_category().message(errno),
                        "; start fewer ranks, or raise the limits that `ulimit -a` shows"));
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) refuse("pipe for another rank");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// The variables, then those of this process that they do not replace.
std::vector<std::string> environment_with(std::vector<std::string> variables) {
  const std::ptrdiff_t own = std::ssize(variables);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const auto replaces = [name](const std::string& variable) { return variable.starts_with(name); };
    if (std::none_of(variables.begin(), variables.begin() + own, replaces)) variables.emplace_back(text);
  }
  return variables;
}

struct Message {  // far below PIPE_BUF, so it is written and read as a whole
  int slot;
  pid_t group;
};

// Of all descriptors but standard input. A kernel before 5.9, or a filter of system calls, may refuse to do so at once;
// their number is bounded then by what is open in practice.
void close_all_but_input() {
  if (::close_range(1, ~0U, 0) == 0) return;
  constexpr int kMost = 65'536;
  for (int descriptor = 1; descriptor < kMost; ++descriptor) ::close(descriptor);
}

// The whole life of the process. Forked from a program with threads, it may only make system calls. `writer` is the
// end of the pipe that the launcher writes to: while it is open here, the pipe has no end.
[[noreturn]] void keep_watch(int pipe, int writer, std::vector<pid_t>& groups) {
  ::setsid();  // Ctrl-C and a closed terminal are the launcher's to handle
  ::prctl(PR_SET_NAME, "tandem-warden");
  // Whatever the launcher has open must not look open because of this process.
  ::dup2(pipe, 0);
  ::close(writer);
  close_all_but_input();
  Message message{};
  for (;;) {
    const ssize_t size = ::read(0, &message, sizeof(message));
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof(message)) break;
    groups[static_cast<std::size_t>(message.slot)] = message.group;
  }
  // The pipe has ended: the launcher is gone, or its destructor closed the writing end.
  for (const pid_t group : groups) {
    if (group > 0) ::kill(-group, SIGKILL);
  }
  ::_exit(0);
}

// All that the child needs, made before the fork: after it, there are only system calls.
struct Start {
  std::vector<char*> arguments, environment;
  pid_t launcher;
  int out, err, failure, last_word;
};

// The child: default signals, its own process group, known to the warden, killed with the launcher, streams in place,
// then the program. It makes system calls only.
[[noreturn]] void become_rank(const Start& start, const Warden& warden, int slot) {
  reset_signals();
  ::setpgid(0, 0);
  warden.set(slot, ::getpid());
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.launcher) ::_exit(127);  // it died before the line above
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(start.out, STDOUT_FILENO);
  ::dup2(start.err, STDERR_FILENO);
  ::fcntl(start.last_word, F_SETFD, 0);  // the one pipe that the program gets
  become_program(start.arguments, start.environment, start.failure);
  ::_exit(127);
}

}  // namespace

Warden::Warden(int slots) {
  Pipe pipe = make_pipe();
  pipe_ = std::move(pipe.writer);
  std::vector<pid_t> groups(static_cast<std::size_t>(slots), 0);
  // The vector is made before the fork: the child must not allocate.
  const BlockedSignals blocked;
  process_ = ::fork();
  if (process_ < 0) refuse("process to watch the ranks");
  if (process_ == 0) {
    reset_signals();
    keep_watch(pipe.reader.get(), pipe_.get(), groups);
  }
}

Warden::~Warden() {
  pipe_.close();
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Warden::set(int slot, pid_t group) const {
  const Message message{slot, group};
  [[maybe_unused]] const ssize_t written = ::write(pipe_.get(), &message, sizeof(message));
}

std::string describe(const ProcessEnd& end) {
  if (end.is_too_early)
    return "exit code 0 in the middle of its work (a library called exit() or _exit(), or its World was not destroyed)";
  if (end.signal == 0) return concat("exit code ", end.code);
  const char* name = ::sigabbrev_np(end.signal);
  return name == nullptr ? concat("signal ", end.signal) : concat("SIG", name);
}

RankProcess::RankProcess(const std::vector<std::string>& command, const std::vector<std::string>& variables,
                         const Warden& warden, int slot)
    : warden_(warden), slot_(slot) {
  Pipe out = make_pipe(), err = make_pipe(), failure = make_pipe(), last_word = make_pipe();
  for (const Descriptor* end : {&last_word.reader, &last_word.writer}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  std::vector<std::string> arguments = command, all = variables;
  all.push_back(concat(kLastWordVariable, "=", last_word_value(last_word.writer.get())));
  std::vector<std::string> environment = environment_with(std::move(all));
  const Start start{.arguments = pointers_to(arguments),
                    .environment = pointers_to(environment),
                    .launcher = ::getpid(),
                    .out = out.writer.get(),
                    .err = err.writer.get(),
                    .failure = failure.writer.get(),
                    .last_word = last_word.writer.get()};
  {
    const BlockedSignals blocked;
    id_ = ::fork();
    if (id_ == 0) become_rank(start, warden, slot);
  }
  if (id_ < 0) refuse("process for another rank");
  ::setpgid(id_, id_);  // as the child does: whoever comes first
  exit_event_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, id_, 0)));
  const int no_event = exit_event_.is_open() ? 0 : errno;
  // The launcher's own copy of the writing end would keep the pipe from ever ending.
  failure.writer.close();
  const int not_started = wait_for_start(failure.reader.get());
  if (no_event != 0 || not_started != 0) {
    (void)reap();
    errno = no_event;
    if (no_event != 0) refuse("handle of a process for another rank");
    throw ConfigError(concat("cannot start '", command.front(), "': ", std::generic_category().message(not_started),
                             "; name a program by its path, or one that is in PATH"));
  }
  out_ = std::move(out.reader);
  err_ = std::move(err.reader);
  last_word_ = std::move(last_word.reader);
  // Only the launcher's ends are made non-blocking; the rank's writes wait as usual.
  for (const Descriptor* stream : {&out_, &err_}) ::fcntl(stream->get(), F_SETFL, O_NONBLOCK);
}

RankProcess::~RankProcess() {
  if (id_ >= 0) (void)reap();
}

// The letter behind the program's name, which may hold anything, in brackets.
bool RankProcess::is_stopped() const {
  std::ifstream file(concat("/proc/", id_, "/stat"));
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && text.compare(end, 3, ") T") == 0;
}

void RankProcess::signal(int number) const {
  TANDEM_CHECK(id_ > 0);
  ::kill(-id_, number);
}

ProcessEnd RankProcess::reap() {
  // The group before its leader: while the leader is not waited for, nobody else can get its number.
  signal(SIGKILL);
  int status = 0;
  while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  warden_.set(slot_, 0);
  id_ = -1;
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  const int code = WEXITSTATUS(status);
  return {.code = code, .is_too_early = code == 0 && last_word_.is_open() && is_word_missing(last_word_.get())};
}

}  // namespace tandem::app
