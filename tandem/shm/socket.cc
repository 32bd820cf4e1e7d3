#include "tandem/shm/socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/poll_until.h"

namespace tandem::shm {
namespace {

constexpr std::size_t kMostDescriptors = 253;  // the kernel's limit

[[noreturn]] void refuse(const std::string& what, int error_number) {
  throw RunError(concat("host group: ", what, ": ", std::system_category().message(error_number)));
}

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
};

// A leading zero byte makes the name abstract. The length counts; no zero ends the name (unix(7)).
Address address_of(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  TANDEM_CHECK(name.size() < sizeof(address.name.sun_path), "a socket's name of ", name.size(), " bytes");
  std::copy(name.begin(), name.end(), address.name.sun_path + 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// Messages keep their borders (SOCK_SEQPACKET), so a reader never has to find where one ends.
Descriptor make_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) refuse("socket", errno);
  return socket;
}

// The kernel tells who made the other end (SO_PEERCRED).
bool same_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace

std::size_t await_readable(std::span<const int> descriptors, const Limits& limits, const std::string& what) {
  std::vector<pollfd> waits;
  for (const int descriptor : descriptors) waits.push_back({descriptor, POLLIN, 0});
  try {
    poll_until(waits, limits, what);
  } catch (const RunError&) {
    rethrow_with("host group: ");
  }
  const auto ready = std::find_if(waits.begin(), waits.end(), [](const pollfd& wait) { return wait.revents != 0; });
  return static_cast<std::size_t>(ready - waits.begin());
}

Descriptor listen_at(const std::string& name, int backlog) {
  Descriptor socket = make_socket();
  const Address address = address_of(name);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.length) != 0) {
    if (errno != EADDRINUSE) refuse(concat("bind to ", name), errno);
    throw RunError(concat("host group: another process already gathers the ranks of ", name,
                          " on this host; two rank 0, or a key that is not unique to the run and generation"));
  }
  if (::listen(socket.get(), backlog) != 0) refuse("listen", errno);
  return socket;
}

Descriptor accept_from(const Descriptor& listener) {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open() && (errno == EMFILE || errno == ENFILE)) refuse("accept", errno);
  return socket.is_open() && same_user(socket) ? std::move(socket) : Descriptor();
}

// The kernel does not tell when an abstract name appears, so this tries again every few milliseconds.
Descriptor connect_to(const std::string& name, const Limits& limits) {
  const Address address = address_of(name);
  for (;;) {
    Descriptor socket = make_socket();
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.length) == 0) {
      if (!same_user(socket)) throw RunError(concat("host group: another user listens at ", name));
      return socket;
    }
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) refuse(concat("connect to ", name), errno);
    if (limits.deadline.expired()) {
      throw DeadlineExceeded(concat("nobody listened at ", name,
                                    " before the deadline: rank 0 has not come, or it is on ",
                                    "another host or in another network namespace"));
    }
    if (limits.stop.stop_requested()) throw GroupAborted(concat("stopped while waiting for rank 0 at ", name));
    pause(std::chrono::milliseconds(2), limits);
  }
}

// Descriptors travel as ancillary data of type SCM_RIGHTS (unix(7)); the kernel duplicates them for the receiver.
bool send(const Descriptor& socket, std::span<const std::byte> message, std::span<const int> descriptors) {
  TANDEM_CHECK(descriptors.size() <= kMostDescriptors, descriptors.size(), " descriptors in a message");
  iovec bytes{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  const ssize_t sent = ::sendmsg(socket.get(), &header, MSG_NOSIGNAL);
  if (sent < 0 && errno != EPIPE && errno != ECONNRESET) refuse("sendmsg", errno);
  return sent == static_cast<ssize_t>(message.size());
}

Received receive(const Descriptor& socket, std::span<std::byte> message) {
  iovec bytes{message.data(), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  Received received;
  if (got < 0) return received;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr; rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    // Every descriptor that came gets an owner at once, so none leaks when the message is refused later.
    std::vector<int> numbers((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(numbers.data(), CMSG_DATA(rights), numbers.size() * sizeof(int));
    for (const int number : numbers) received.descriptors.emplace_back(number);
  }
  received.whole = got == static_cast<ssize_t>(message.size()) && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return received;
}

}  // namespace tandem::shm
