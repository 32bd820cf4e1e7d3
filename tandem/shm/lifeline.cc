#include "tandem/shm/lifeline.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::shm {

Lifeline make_lifeline() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    throw RunError(concat("host group: socketpair: ", std::system_category().message(errno)));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void call(const Descriptor& others) {
  constexpr char kCall = '?';
  (void)::send(others.get(), &kCall, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool take_calls(const Descriptor& own) {
  std::array<char, 64> calls{};
  ssize_t taken = 0;
  do {
    taken = ::recv(own.get(), calls.data(), calls.size(), MSG_DONTWAIT);
  } while (taken > 0 || (taken < 0 && errno == EINTR));
  return taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void hang_up(const Descriptor& own) { (void)::shutdown(own.get(), SHUT_RDWR); }

}  // namespace tandem::shm
