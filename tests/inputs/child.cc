#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "tandem/base/text.h"

namespace tandem::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

[[noreturn]] void become(const Child& child, const std::vector<char*>& words, int out, int err) {
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (::chdir(child.folder.c_str()) != 0) ::_exit(126);
  if (child.prepare) child.prepare();
  ::execvp(words[0], words.data());
  ::_exit(127);
}

// Appends what there is; false once the other side is closed.
bool read_some(int descriptor, std::string& text) {
  std::array<char, 4096> block{};
  const ssize_t size = ::read(descriptor, block.data(), block.size());
  if (size > 0) text.append(block.data(), static_cast<std::size_t>(size));
  return size > 0;
}

// Both outputs until the program has closed them. False when the deadline came first.
bool read_outputs(Pipe& out, Pipe& err, Clock::time_point deadline, Outcome& outcome) {
  std::array<pollfd, 2> open{pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    ::poll(open.data(), open.size(), static_cast<int>(left));
    if (open[0].revents != 0 && !read_some(open[0].fd, outcome.out)) open[0].fd = -1;  // poll() skips those
    if (open[1].revents != 0 && !read_some(open[1].fd, outcome.err)) open[1].fd = -1;
  }
  return true;
}

}  // namespace

Outcome run(const Child& child) {
  std::vector<char*> words;
  for (const std::string& word : child.words)
    words.push_back(const_cast<char*>(word.c_str()));  // NOLINT: as exec has it
  words.push_back(nullptr);
  Pipe out, err;
  const pid_t process = ::fork();
  if (process < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process == 0) become(child, words, out.ends[1], err.ends[1]);
  out.close_end(1);
  err.close_end(1);

  Outcome outcome;
  const bool in_time = read_outputs(out, err, Clock::now() + child.patience, outcome);
  if (!in_time) ::kill(process, SIGKILL);
  int status = 0;
  ::waitpid(process, &status, 0);
  if (!in_time) {
    outcome.end = concat("killed: no end within ", child.patience.count(), " s");
  } else if (WIFEXITED(status)) {
    outcome.code = WEXITSTATUS(status);
    outcome.end = concat("exit code ", *outcome.code);
  } else {
    outcome.end = concat("signal ", WTERMSIG(status));
  }
  return outcome;
}

}  // namespace tandem::testing
