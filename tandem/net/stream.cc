#include "tandem/net/stream.h"

#include <sys/socket.h>

namespace tandem::net {

ssize_t Stream::read(std::span<std::byte> into) {
  return tls_ != nullptr ? tls_->read(into) : ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
}

ssize_t Stream::write(std::span<const iovec> parts) {
  if (tls_ != nullptr) return tls_->write(parts);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t Stream::write(std::span<const std::byte> bytes) {
  const iovec all{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  return write({&all, 1});
}

}  // namespace tandem::net
