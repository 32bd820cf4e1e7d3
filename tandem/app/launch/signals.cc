#include "tandem/app/launch/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::app {
namespace {

constexpr std::array<int, 5> kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

std::atomic<int> inbox{-1};  // what the handler writes to
std::array<struct sigaction, kSignals.size()> before;

// The handler writes one byte to a pipe that does not block; when the pipe is full, the signal is lost among many
// others.
void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = ::write(inbox.load(), &byte, 1);
  errno = saved;
}

}  // namespace

SignalInbox::SignalInbox() {
  TANDEM_CHECK(inbox.load() < 0, "there are two SignalInboxes");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw RunError(concat("the system gives no pipe: ", std::generic_category().message(errno)));
  }
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
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  // Handlers are back by now, so nothing writes to the pipe any more.
  inbox.store(-1);
}

std::optional<int> SignalInbox::next() {
  unsigned char byte = 0;
  if (::read(reader_.get(), &byte, 1) != 1) return std::nullopt;
  return byte;
}

}  // namespace tandem::app
