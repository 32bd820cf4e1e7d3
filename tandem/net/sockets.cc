#include "tandem/net/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string_view>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::net {
namespace {

// A socket's address of any family, and how much of it counts.
struct SocketName {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  [[nodiscard]] sockaddr* generic() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// A leading zero byte makes the name abstract. The size counts; no zero ends the name (unix(7)).
SocketName abstract(const std::string& name) {
  sockaddr_un address{};
  TANDEM_CHECK(!name.empty() && name.size() < sizeof(address.sun_path), "a socket's name of ", name.size(), " bytes");
  SocketName result;
  auto* const local = reinterpret_cast<sockaddr_un*>(&result.storage);
  local->sun_family = AF_UNIX;
  std::ranges::copy(name, local->sun_path + 1);
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// `failure` is getaddrinfo()'s; nothing is found unless it is zero.
Found find_addresses(const std::string& host, int port, int flags, int& failure) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {failure == 0 ? found : nullptr, ::freeaddrinfo};
}

// As numbers, an IPv4 address that came by a socket of IPv6 as one of IPv4; empty when the system cannot.
std::string number_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  const std::string_view whole = text.data();
  constexpr std::string_view kMapped = "::ffff:";
  return std::string(whole.starts_with(kMapped) ? whole.substr(kMapped.size()) : whole);
}

int port_in(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

// What is said is waited for, so nothing is held back until more comes (Nagle's algorithm). Connections that a listener
// accepts are as it is.
Descriptor make_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (socket.is_open() && family != AF_UNIX) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return socket;
}

Descriptor begin(Descriptor socket, const sockaddr* to, socklen_t size) {
  if (!socket.is_open() || ::connect(socket.get(), to, size) == 0 || errno == EINPROGRESS) return socket;
  const int error = errno;
  socket.close();
  errno = error;
  return socket;
}

Descriptor listening(Descriptor socket, const sockaddr* at, socklen_t size) {
  if (!socket.is_open()) return socket;
  if (::bind(socket.get(), at, size) == 0 && ::listen(socket.get(), SOMAXCONN) == 0) return socket;
  const int error = errno;
  socket.close();
  errno = error;
  return socket;
}

// An address of this host, and the interface that has it.
struct OwnAddress {
  std::string interface, number;
  bool is_loopback = false;
};

// Of the interfaces that are up. Link-local addresses (IPv6, with a '%') mean nothing to another host.
std::vector<OwnAddress> addresses_by_interface() {
  std::vector<OwnAddress> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {{"lo", "127.0.0.1", true}, {"lo", "::1", true}};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const std::string text = number_of(each->ifa_addr, family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (text.empty() || text.find('%') != std::string::npos) continue;
    addresses.push_back({each->ifa_name, text, (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

}  // namespace

std::vector<std::string> own_addresses() {
  std::vector<std::string> loopback, others;
  for (const OwnAddress& each : addresses_by_interface()) (each.is_loopback ? loopback : others).push_back(each.number);
  loopback.insert(loopback.end(), others.begin(), others.end());
  return loopback;
}

std::string address_on(const std::string& network) {
  for (const OwnAddress& each : addresses_by_interface()) {
    if (each.interface == network || each.number == network) return each.number;
  }
  throw ConfigError(concat("the network '", network,
                           "' is no interface and no address of this host; `ip address` lists "
                           "them"));
}

std::vector<std::string> look_up(const std::string& host, std::string& why) {
  int failure = 0;
  std::vector<std::string> addresses;
  const Found found = find_addresses(host, 0, 0, failure);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    std::string number = number_of(each->ai_addr, each->ai_addrlen);
    if (std::ranges::find(addresses, number) == addresses.end()) addresses.push_back(std::move(number));
  }
  if (failure != 0) why = ::gai_strerror(failure);
  return addresses;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

Descriptor listen_locally(const std::string& name) {
  const SocketName at = abstract(name);
  return listening(make_socket(AF_UNIX), at.generic(), at.size);
}

// A socket of IPv6 takes connections of IPv4, too. A host may have IPv4 only.
Descriptor listen_to_all(int port) {
  Descriptor socket = listen_to("::", port);
  return socket.is_open() || errno == EADDRINUSE ? std::move(socket) : listen_to("0.0.0.0", port);
}

Descriptor listen_to(const std::string& address, int port) {
  int failure = 0;
  const Found at = find_addresses(address, port, AI_NUMERICHOST | AI_NUMERICSERV, failure);
  if (!at) {
    errno = EINVAL;
    return {};
  }
  Descriptor socket = make_socket(at->ai_family);
  const int yes = 1, no = 0;
  if (socket.is_open()) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // a run may follow at once on the last
    if (at->ai_family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  return listening(std::move(socket), at->ai_addr, at->ai_addrlen);
}

int port_of(const Descriptor& socket) {
  SocketName name;
  return ::getsockname(socket.get(), name.generic(), &name.size) == 0 ? port_in(name.storage) : 0;
}

Descriptor start_locally(const std::string& name) {
  const SocketName to = abstract(name);
  return begin(make_socket(AF_UNIX), to.generic(), to.size);
}

Descriptor start_to(const std::string& address, int port) {
  int failure = 0;
  const Found to = find_addresses(address, port, AI_NUMERICHOST | AI_NUMERICSERV, failure);
  if (to) return begin(make_socket(to->ai_family), to->ai_addr, to->ai_addrlen);
  errno = EINVAL;
  return {};
}

bool is_of_this_user(const Descriptor& socket) {
  SocketName own;
  if (::getsockname(socket.get(), own.generic(), &own.size) != 0) return false;
  if (own.storage.ss_family != AF_UNIX) return true;
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

std::string peer_of(const Descriptor& socket) {
  SocketName peer;
  if (::getpeername(socket.get(), peer.generic(), &peer.size) != 0) return "somebody who is gone";
  if (peer.storage.ss_family != AF_UNIX)
    return concat(number_of(peer.generic(), peer.size), ":", std::to_string(port_in(peer.storage)));
  ucred who{};
  socklen_t size = sizeof(who);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return "somebody of this host";
  return concat("process ", std::to_string(who.pid), " of user ", std::to_string(who.uid));
}

}  // namespace tandem::net
