#include "tandem/net/contact.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <span>
#include <sstream>
#include <system_error>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/poll_until.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;

// The dialler shows the first half of the secret, and the listener answers with the second half.
constexpr std::size_t kSecret = 32, kHalf = kSecret / 2;
constexpr auto kToGreet = 5s;
constexpr char kTaken = 'T';  // the dialler sends it on the one of several connections that it keeps

std::string error_text(int error) { return std::generic_category().message(error); }

std::string make_secret() {
  std::array<unsigned char, kHalf> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw RunError(concat("getrandom: ", error_text(errno)));
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

// Returns the address as numbers; empty when the system cannot.
std::string text_of(const sockaddr& address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int failure = ::getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failure == 0 ? text.data() : "";
}

// The addresses of all interfaces that are up. Link-local addresses (IPv6, with a '%') mean nothing to another host.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses{"127.0.0.1"};
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const std::string text = text_of(*each->ifa_addr);
    if (!text.empty() && text.find('%') == std::string::npos) addresses.push_back(text);
  }
  return addresses;
}

// A socket of IPv6 takes connections of IPv4, too. A host may have IPv4 only.
Descriptor listen_on_any() {
  for (const int family : {AF_INET6, AF_INET}) {
    Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) continue;
    const int no = 0;
    if (family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    sockaddr_storage address{};  // all zeros: any address, a free port
    address.ss_family = static_cast<sa_family_t>(family);
    const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) continue;
    if (::listen(socket.get(), SOMAXCONN) == 0) return socket;
  }
  throw RunError(concat("cannot listen on any port: ", error_text(errno)));
}

int port_of(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// The first bytes of the dialler.
struct Hello {
  std::array<char, kHalf> secret{};
  std::int32_t member = 0;
};

// Fills `into`. Returns an empty text, or why the other end sent less.
std::string read_exactly(int socket, std::span<std::byte> into, const Limits& limits) {
  while (!into.empty()) {
    const ssize_t got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    if (got == 0) return "hung up";
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{socket, POLLIN, 0};
      poll_until({&wait, 1}, limits, "a greeting");
    } else if (errno != EINTR) {
      return error_text(errno);
    }
  }
  return "";
}

// An address that dial() tries, and how far the attempt has come.
struct Attempt {
  std::string address, failure;
  Descriptor socket;
  enum class Stage { kConnecting, kGreeted, kOver } stage = Stage::kOver;
};

// Begins to connect, without waiting.
void start(Attempt& attempt, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(attempt.address.c_str(), port.c_str(), &hints, &found) != 0) {
    attempt.failure = "no address";
    return;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> target(found, ::freeaddrinfo);
  attempt.socket = Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.socket.is_open() ||
      (::connect(attempt.socket.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    attempt.failure = error_text(errno);
    return;
  }
  attempt.stage = Attempt::Stage::kConnecting;
}

void fail(Attempt& attempt, const std::string& why) {
  attempt.failure = why;
  attempt.stage = Attempt::Stage::kOver;
  attempt.socket.close();
}

// Goes on with an attempt after an event of its socket. Returns true when the listener has answered with its secret.
bool advance(Attempt& attempt, const Hello& hello, const std::string& expected, const Limits& limits) {
  if (attempt.stage == Attempt::Stage::kConnecting) {
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && ::send(attempt.socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) error = errno;
    if (error != 0)
      fail(attempt, error_text(error));
    else
      attempt.stage = Attempt::Stage::kGreeted;
    return false;
  }
  std::string answer(kHalf, ' ');
  const Limits soon{.deadline = Deadline::after(std::min<Clock::duration>(kToGreet, limits.deadline.remaining())),
                    .stop = limits.stop};
  const std::string why = read_exactly(attempt.socket.get(), std::as_writable_bytes(std::span(answer)), soon);
  if (!why.empty() || answer != expected) fail(attempt, why.empty() ? "somebody else answered" : why);
  return why.empty() && answer == expected && ::send(attempt.socket.get(), &kTaken, 1, MSG_NOSIGNAL) == 1;
}

// Lists what became of each address, for messages.
std::string failures_of(const std::vector<Attempt>& attempts) {
  return joined(attempts, [](const Attempt& each) {
    return concat(each.address, ": ", each.failure.empty() ? "no answer" : each.failure);
  });
}

}  // namespace

Listener::Listener() : socket_(listen_on_any()), secret_(make_secret()) {
  contact_ = concat(secret_, " ", port_of(socket_));
  for (const std::string& address : own_addresses()) contact_ += " " + address;
}

void Listener::shut() { ::shutdown(socket_.get(), SHUT_RDWR); }

// Accepts one connection and greets it. A stranger who says nothing holds up the others for kToGreet at most.
Listener::Accepted Listener::accept(const Limits& limits) {
  pollfd wait{socket_.get(), POLLIN, 0};
  poll_until({&wait, 1}, limits, "a connection");
  Accepted accepted{.socket = Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK))};
  if (!accepted.socket.is_open()) {
    if (errno == EMFILE || errno == ENFILE) throw RunError(concat("cannot accept a member: ", error_text(errno)));
    return accepted;
  }
  Hello hello;
  char taken = 0;
  try {
    const Limits soon{.deadline = Deadline::after(kToGreet), .stop = limits.stop};
    const int socket = accepted.socket.get();
    const std::string why = read_exactly(socket, std::as_writable_bytes(std::span(&hello, 1)), soon);
    if (!why.empty() || std::string(hello.secret.data(), kHalf) != secret_.substr(0, kHalf)) return {};
    if (::send(socket, secret_.data() + kHalf, kHalf, MSG_NOSIGNAL) != static_cast<ssize_t>(kHalf)) return {};
    if (!read_exactly(socket, std::as_writable_bytes(std::span(&taken, 1)), soon).empty() || taken != kTaken) return {};
  } catch (const DeadlineExceeded&) {
    return {};
  }
  accepted.member = hello.member;
  return accepted;
}

// Starts all attempts, and then advances whichever has an event, until one is answered or all have failed. The other
// attempts are closed with the list, and their listeners see that nothing was taken.
Descriptor dial(const std::string& contact, int member, const Limits& limits) {
  std::istringstream in(contact);
  std::string secret, port;
  std::vector<Attempt> attempts;
  in >> secret >> port;
  for (std::string address; in >> address;) attempts.emplace_back().address = address;
  if (secret.size() != kSecret || attempts.empty()) throw RunError(concat("'", contact, "' is no contact"));
  Hello hello{.secret = {}, .member = member};
  std::copy_n(secret.begin(), kHalf, hello.secret.begin());
  for (Attempt& attempt : attempts) start(attempt, port);
  for (;;) {
    std::vector<pollfd> waits;
    std::vector<Attempt*> open;
    for (Attempt& attempt : attempts) {
      if (attempt.stage == Attempt::Stage::kOver) continue;
      const short event = attempt.stage == Attempt::Stage::kConnecting ? POLLOUT : POLLIN;
      waits.push_back({attempt.socket.get(), event, 0});
      open.push_back(&attempt);
    }
    if (open.empty()) {
      throw RunError(concat("cannot connect to a member of the run (", failures_of(attempts),
                            "); likely it has ended, or a firewall is between the hosts"));
    }
    poll_until(waits, limits, concat("a member of the run to answer (", failures_of(attempts), ")"));
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (waits[i].revents != 0 && advance(*open[i], hello, secret.substr(kHalf), limits))
        return std::move(open[i]->socket);
    }
  }
}

}  // namespace tandem::net
