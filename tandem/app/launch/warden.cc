#include "tandem/app/launch/warden.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <vector>

#include "tandem/app/launch/blocked_signals.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

struct Message {  // far below PIPE_BUF, so it is written and read as a whole
  int slot;
  pid_t group;
};

// The whole life of the process. Forked from a program with threads, it may only make system calls.
[[noreturn]] void keep_watch(int pipe, std::vector<pid_t>& groups) {
  ::setsid();  // Ctrl-C and a closed terminal are the launcher's to handle
  ::prctl(PR_SET_NAME, "tandem-warden");
  // Whatever the launcher has open must not look open because of this process.
  ::dup2(pipe, 0);
  ::close_range(1, ~0U, 0);
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

}  // namespace

Warden::Warden(int slots) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw RunError(concat("the system gives no pipe: ", std::generic_category().message(errno)));
  const Descriptor reader(ends[0]);
  pipe_ = Descriptor(ends[1]);
  std::vector<pid_t> groups(static_cast<std::size_t>(slots), 0);
  // The vector is made before the fork: the child must not allocate.
  const BlockedSignals blocked;
  process_ = ::fork();
  if (process_ < 0)
    throw RunError(concat("the system gives no process to watch the ranks: ", std::generic_category().message(errno)));
  if (process_ == 0) {
    reset_signals();
    keep_watch(reader.get(), groups);
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

}  // namespace tandem::app
