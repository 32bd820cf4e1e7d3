#include "tandem/rl/env/isolated/bell.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tandem::rl {
namespace {

// Whether the socket still has another end. Takes bytes that are there; how many does not matter.
bool take_bytes(int socket) {
  std::array<char, 64> bytes{};
  const ssize_t size = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return size > 0 || (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

// Whether poll() may be called again: something came, or nothing did. It ends now and then, since an environment that
// closes descriptors which are not its own keeps the other side from sending a byte, but not from its answer.
bool sleep_in(int socket, const Deadline& deadline) {
  constexpr std::chrono::milliseconds kLongest{100};
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(std::min<Clock::duration>(deadline.remaining(), kLongest));
  pollfd wait{socket, POLLIN, 0};
  const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
  if (ready < 0) return errno == EINTR;
  return (wait.revents & POLLNVAL) == 0;
}

}  // namespace

void ring(std::atomic<std::uint32_t>& number, std::uint32_t value, const std::atomic<std::uint32_t>& other_sleeps,
          int socket) {
  // The store and the load are sequentially consistent, as are those of a sleeper, so one of both sees the other's.
  number.store(value, std::memory_order_seq_cst);
  if (other_sleeps.load(std::memory_order_seq_cst) == 0) return;
  constexpr char kByte = 1;
  (void)::send(socket, &kByte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);  // a full socket has a byte already
}

BellOutcome BellWait::until(const Deadline& deadline) const {
  const auto has_come = [this] { return number.load(std::memory_order_seq_cst) == value; };
  if (spin_until(spin, has_come)) return BellOutcome::kRung;
  for (;;) {
    own_sleeps.store(1, std::memory_order_seq_cst);
    const bool is_here = has_come();
    const bool may_sleep = is_here || sleep_in(socket, deadline);
    own_sleeps.store(0, std::memory_order_seq_cst);
    if (is_here) return BellOutcome::kRung;
    const bool is_there = may_sleep && take_bytes(socket);
    if (has_come()) return BellOutcome::kRung;
    if (!is_there) return BellOutcome::kGone;
    if (deadline.expired()) return BellOutcome::kLate;
  }
}

}  // namespace tandem::rl
