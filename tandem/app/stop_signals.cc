#include "tandem/app/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "tandem/app/exit_code.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::app {
namespace {

// Note [The way of a signal]
// A handler may hardly do anything, and not request a stop: that takes locks. So it writes a byte into a pipe, which a
// thread reads. The thread ends at the byte that the destructor writes.
constexpr char kSignal = 's', kEnd = 'e';
constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

std::array<int, 2> pipe_ends{-1, -1};  // to read, to write
std::array<struct sigaction, 2> before;
std::atomic<int> received{0};
std::atomic<bool> in_use{false};
static_assert(std::atomic<int>::is_always_lock_free, "the handler uses it");

void write_byte(char byte) { [[maybe_unused]] const ssize_t written = ::write(pipe_ends[1], &byte, 1); }

void on_signal(int) {
  const int saved = errno;
  if (received.fetch_add(1) > 0) {
    constexpr char kText[] = "\ntandem: ended at once; the last checkpoint is whole\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
    ::_exit(static_cast<int>(ExitCode::kStopped));
  }
  write_byte(kSignal);
  errno = saved;
}

void open_pipe() {
  TANDEM_CHECK(!in_use, "there are two StopSignals");
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    throw RunError(concat("the system gives no pipe: ", std::generic_category().message(errno)));
  }
  in_use = true;
}

void listen(std::stop_source& source) {
  for (char byte = 0; byte != kEnd;) {
    const ssize_t size = ::read(pipe_ends[0], &byte, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    if (byte == kSignal) source.request_stop();
  }
}

}  // namespace

StopSignals::StopSignals() {
  open_pipe();
  listener_.emplace("tandem-signals", [this](const std::stop_token&) { listen(source_); });
  received = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  write_byte(kEnd);
  listener_->join();
  for (int& end : pipe_ends) {
    ::close(end);
    end = -1;
  }
  in_use = false;
}

}  // namespace tandem::app
