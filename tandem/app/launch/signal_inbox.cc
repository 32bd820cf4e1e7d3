#include "tandem/app/launch/signal_inbox.h"

#include <fcntl.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::array<int, 5> kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
std::atomic<int> inbox{-1};  // what the handler writes to
std::array<struct sigaction, kSignals.size()> before;

// The handler writes one byte to a pipe that does not block.
void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = ::write(inbox.load(), &byte, 1);
  errno = saved;
}

// In the place of a default that ends the process. It is no SIG_IGN, which would look like nohup to the next launch of
// this process.
void pass_over(int) {}

}  // namespace

SignalInbox::SignalInbox() {
  TANDEM_CHECK(inbox.load() < 0, "there are two SignalInboxes");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw RunError(concat("the system gives no pipe: ", std::generic_category().message(errno)));
  reader_ = Descriptor(ends[0]);
  writer_ = Descriptor(ends[1]);
  inbox.store(writer_.get());
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &action, &before[i]);
    if (kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN) ::sigaction(SIGHUP, &before[i], nullptr);
  }
}

SignalInbox::~SignalInbox() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (before[i].sa_handler == SIG_DFL) before[i].sa_handler = pass_over;
    ::sigaction(kSignals[i], &before[i], nullptr);
  }
  inbox.store(-1);  // handlers are back by now, so nothing writes to the pipe any more
}

}  // namespace tandem::app
