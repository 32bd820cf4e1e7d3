#include "tandem/comm/store/tcp_endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
constexpr auto kBetweenAttempts = 100ms, kOneAttempt = 1000ms;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct Attempt {
  std::string address;  // the address that answered; empty if none did
  std::string cause;    // the reason if none answered
};

std::string text_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  // c10d reaches IPv4 addresses through IPv6 sockets, which show them with this prefix.
  const std::string_view whole = text.data();
  constexpr std::string_view kMapped = "::ffff:";
  return std::string(whole.starts_with(kMapped) ? whole.substr(kMapped.size()) : whole);
}

// Tries to connect within `limit`, and returns the reason why that failed; empty if it did not fail.
std::string connect_failure(const addrinfo& to, Clock::duration limit) {
  const Descriptor socket(::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol));
  if (!socket.is_open()) return std::generic_category().message(errno);
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0) return "";
  if (errno != EINPROGRESS) return std::generic_category().message(errno);
  pollfd waiting{socket.get(), POLLOUT, 0};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  if (::poll(&waiting, 1, static_cast<int>(milliseconds)) <= 0) return "no answer";
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::generic_category().message(error);
}

// `failure` is the result of getaddrinfo(); the addresses are null unless it is zero.
Addresses look_up(const Endpoint& endpoint, int socket_type, int flags, int& failure) {
  addrinfo hints{};
  hints.ai_socktype = socket_type;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  failure = ::getaddrinfo(endpoint.address.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  return {failure == 0 ? found : nullptr, ::freeaddrinfo};
}

Attempt try_to_connect(const Endpoint& endpoint, const Deadline& deadline) {
  int failure = 0;
  const Addresses addresses = look_up(endpoint, SOCK_STREAM, 0, failure);
  if (failure != 0) return {"", ::gai_strerror(failure)};
  std::string cause;
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) {
    cause = connect_failure(*to, std::min<Clock::duration>(deadline.remaining(), kOneAttempt));
    if (cause.empty()) return {text_of(to->ai_addr, to->ai_addrlen), ""};
  }
  return {"", cause};
}

// Returns 0 for an address of another family.
int port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

// A descriptor and the inode of its socket. The system reuses the number of a closed descriptor, but not the inode.
using Socket = std::pair<int, ino_t>;

// Returns this process' connections to the endpoint. c10d does not give out its sockets, so they are found in /proc.
std::set<Socket> connections_to(const Endpoint& endpoint) {
  std::set<Socket> sockets;
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (error) throw RunError("cannot list the connections of this process, /proc/self/fd: " + error.message());
  for (const auto& entry : descriptors) {
    const int descriptor = std::stoi(entry.path().filename());
    struct stat file {};
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    auto* const address = reinterpret_cast<sockaddr*>(&peer);
    if (::getpeername(descriptor, address, &size) != 0) continue;
    if (port_of(peer) == endpoint.port && text_of(address, size) == endpoint.address && ::fstat(descriptor, &file) == 0)
      sockets.insert({descriptor, file.st_ino});
  }
  return sockets;
}

constexpr std::size_t kHeader = 12;                         // bytes of a DNS message's header; RFC 1035, 4.1.1
constexpr unsigned char kResponse = 0x80, kNoSuchName = 3;  // flags in the header's third and fourth byte

sockaddr* generic(sockaddr_in& name) { return reinterpret_cast<sockaddr*>(&name); }

// Answers every DNS question with "no such name": the question itself is the answer, with two flags set.
void answer_questions(int socket, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::array<unsigned char, 512> message{};
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    const ssize_t length = ::recvfrom(socket, message.data(), message.size(), 0, generic(from), &size);
    if (length < static_cast<ssize_t>(kHeader)) continue;  // a timeout, or the destructor's empty message
    message[2] |= kResponse;
    message[3] |= kNoSuchName;
    (void)::sendto(socket, message.data(), static_cast<std::size_t>(length), 0, generic(from), size);
  }
}

// While an object of this class lives, its thread asks no name server: a thread of this process answers its DNS
// questions at once, with "no such name".
//
// For its log, c10d looks up the name of each address that it is about to connect to, although the name is not needed.
// A name server that does not answer takes 5 s a try from the time to connect, until none is left. glibc keeps its list
// of name servers for each thread, so other threads are not affected.
class NamelessLookups {
 public:
  // If the system has no socket to give, this changes nothing: look-ups are only slower.
  NamelessLookups() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const timeval between_looks{.tv_sec = 0, .tv_usec = 100'000};
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    if (!socket_.is_open() ||
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &between_looks, sizeof(between_looks)) != 0 ||
        ::bind(socket_.get(), generic(name), size) != 0 || ::getsockname(socket_.get(), generic(name), &size) != 0 ||
        ::res_ninit(&_res) != 0) {
      return;
    }
    server_.emplace("tandem-no-name",
                    [socket = socket_.get()](const std::stop_token& stop) { answer_questions(socket, stop); });
    _res.nscount = 1;
    _res.nsaddr_list[0] = name;
  }
  ~NamelessLookups() {
    if (!server_) return;
    ::res_nclose(&_res);
    server_->request_stop();
    sockaddr_in name = _res.nsaddr_list[0];
    const char nothing = 0;  // wakes the thread, so that it sees the stop request
    (void)::sendto(socket_.get(), &nothing, sizeof(nothing), 0, generic(name), sizeof(name));
  }

 private:
  Descriptor socket_;
  std::optional<Worker> server_;
};

// Returns a socket that listens at a numeric address, or a closed descriptor with the reason in errno.
Descriptor bound_socket(const Endpoint& endpoint) {
  int failure = 0;
  const Addresses to = look_up(endpoint, SOCK_STREAM, AI_NUMERICHOST, failure);
  Descriptor socket(failure == 0 ? ::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1);
  if (!socket.is_open()) return socket;
  const int yes = 1, no = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // a run may follow at once on the last
  if (to->ai_family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  if (::bind(socket.get(), to->ai_addr, to->ai_addrlen) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) socket.close();
  return socket;
}

}  // namespace

Listener listen_on(int port, Reach reach) {
  Listener listener;
  if (reach == Reach::kEverywhere) listener.socket = bound_socket({"::", port});  // takes IPv4 too
  const bool is_taken = !listener.socket.is_open() && reach == Reach::kEverywhere && errno == EADDRINUSE;
  if (!listener.socket.is_open() && !is_taken)
    listener.socket = bound_socket({reach == Reach::kThisHost ? "127.0.0.1" : "0.0.0.0", port});
  if (!listener.socket.is_open()) {
    throw RunError(concat("cannot host the store on port ", port, ": ", std::generic_category().message(errno),
                          "; likely another run or program listens there: choose another MASTER_PORT for all ranks, or "
                          "end it (`ss -ltnp` shows who it is)"));
  }
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  ::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&own), &size);
  listener.port = port_of(own);
  return listener;
}

std::string await_listener(const Endpoint& endpoint, const Limits& limits) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    Attempt attempt = try_to_connect(endpoint, limits.deadline);
    if (!attempt.address.empty()) return attempt.address;
    const std::string failure = concat("cannot reach the store at ", endpoint.address, ":", endpoint.port);
    if (limits.stop.stop_requested()) throw GroupAborted(failure + " before the wait was stopped: " + attempt.cause);
    if (limits.deadline.expired()) {
      const std::chrono::duration<double> waited = Clock::now() - begin;
      throw DeadlineExceeded(concat(failure, " within ", waited.count(), " s: ", attempt.cause,
                                    "; likely its host (rank 0, or the launcher) is not running or has failed, or "
                                    "MASTER_ADDR and MASTER_PORT are not its address, or a firewall is between"));
    }
    pause(kBetweenAttempts, limits);
  }
}

std::string own_address_towards(const std::string& address) {
  int failure = 0;
  const Addresses target = look_up({address, 9}, SOCK_DGRAM, AI_NUMERICHOST, failure);
  if (failure != 0) return address;
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  const Descriptor socket(::socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), target->ai_addr, target->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return address;
  const std::string text = text_of(reinterpret_cast<sockaddr*>(&own), size);
  return text.empty() ? address : text;
}

// Without the lock, another thread's connections would be taken for those of this one.
Mutex& connecting() {
  static Mutex one_connects;
  return one_connects;
}

// `connect` runs on a thread of its own. If it takes too long, shutting its sockets down makes its reads fail, so that
// it returns with an error; this is repeated, since it may open another connection.
void limit_replies(const MutexLock& /*turn*/, const Endpoint& endpoint, std::chrono::milliseconds limit,
                   const std::function<void()>& connect) {
  const std::set<Socket> before = connections_to(endpoint);
  const auto for_each_new = [&](const auto& action) {
    for (const Socket& socket : connections_to(endpoint)) {
      if (!before.contains(socket)) action(socket.first);
    }
  };
  std::packaged_task<void()> task([&] {
    const NamelessLookups nobody_needs_the_name_of_the_address;
    connect();
  });
  std::future<void> connected = task.get_future();
  Worker worker("tandem-connect", [&](const std::stop_token&) { task(); });
  while (connected.wait_for(limit) == std::future_status::timeout)
    for_each_new([](int socket) { ::shutdown(socket, SHUT_RDWR); });
  connected.get();
  const timeval time{.tv_sec = limit.count() / 1000, .tv_usec = limit.count() % 1000 * 1000};
  for_each_new([&](int socket) {
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
  });
}

}  // namespace tandem::comm
