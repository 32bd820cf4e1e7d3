#include "tandem/concurrency/poll_until.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/wake_event.h"

namespace tandem {
namespace {

// poll() takes milliseconds as an int, and -1 for no limit. Rounded up, so that a wait does not spin before its
// deadline.
int poll_milliseconds(const Deadline& deadline) {
  if (deadline.is_infinite()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
  return static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30));
}

[[noreturn]] void fail_poll(const std::string& call) {
  throw RunError(concat(call, ": ", std::generic_category().message(errno)));
}

}  // namespace

// A stop request cannot interrupt poll(). So it writes to an eventfd, which is polled along with the sockets.
void poll_until(std::span<pollfd> sockets, const Limits& limits, const std::string& what) {
  std::vector<pollfd> waits(sockets.begin(), sockets.end());
  const Descriptor stopped(limits.stop.stop_possible() ? make_wake_event(what) : Descriptor());
  const std::stop_callback on_stop(limits.stop, [&] { wake(stopped); });
  if (stopped.is_open()) waits.push_back({stopped.get(), POLLIN, 0});
  for (;;) {
    if (::poll(waits.data(), waits.size(), poll_milliseconds(limits.deadline)) < 0 && errno != EINTR) fail_poll("poll");
    bool is_ready = false;
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      sockets[i].revents = waits[i].revents;
      is_ready = is_ready || waits[i].revents != 0;
    }
    if (is_ready) return;
    if (limits.stop.stop_requested()) throw GroupAborted(concat("stopped while waiting for ", what));
    if (limits.deadline.expired()) throw DeadlineExceeded(concat("the deadline passed while waiting for ", what));
  }
}

// Nobody notifies `never`: the wait ends by the stop request or at the deadline.
void pause(Clock::duration span, const Limits& limits) {
  Mutex mutex;
  CondVar never;
  const MutexLock lock(mutex);
  const Deadline end = Deadline::after(std::min(span, limits.deadline.remaining()));
  (void)never.wait(mutex, limits.stop, end, [] { return false; });
}

}  // namespace tandem
