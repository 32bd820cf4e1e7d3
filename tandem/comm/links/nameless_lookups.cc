#include "tandem/comm/links/nameless_lookups.h"

#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>

#include <array>

namespace tandem::comm {
namespace {

constexpr std::size_t kHeader = 12;                         // of a DNS message; RFC 1035, 4.1.1
constexpr unsigned char kResponse = 0x80, kNoSuchName = 3;  // in its third and fourth byte

sockaddr* generic(sockaddr_in& name) { return reinterpret_cast<sockaddr*>(&name); }

void answer_questions(int socket, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::array<unsigned char, 512> message{};
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    const ssize_t length = ::recvfrom(socket, message.data(), message.size(), 0, generic(from), &size);
    if (length < static_cast<ssize_t>(kHeader)) continue;  // it was time to look for a stop
    message[2] |= kResponse;
    message[3] |= kNoSuchName;
    (void)::sendto(socket, message.data(), static_cast<std::size_t>(length), 0, generic(from), size);
  }
}

}  // namespace

NamelessLookups::NamelessLookups() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
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

NamelessLookups::~NamelessLookups() {
  if (!server_) return;
  ::res_nclose(&_res);
  server_->request_stop();
  sockaddr_in name = _res.nsaddr_list[0];
  const char nothing = 0;  // so that it looks at once
  (void)::sendto(socket_.get(), &nothing, sizeof(nothing), 0, generic(name), sizeof(name));
}

}  // namespace tandem::comm
