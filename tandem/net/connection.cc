#include "tandem/net/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/poll_until.h"

namespace tandem::net {
namespace {

// Precedes the bytes of a message. The mark tells a message from anything else that may have come.
struct Header {
  std::uint64_t bytes = 0;
  std::int64_t patience = 0;
  std::uint32_t kind = 0, mark = 0;
};
constexpr std::uint32_t kMark = 0x7A4D0001;
// More than a message of the largest model that fits into a host.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

// Where more is to come, room is made as it comes: a header alone takes no more memory than this.
constexpr std::size_t kRoomAtOnce = std::size_t{64} << 20;

enum class Failure : std::int32_t { kRun, kLost, kDeadline, kAborted };
// Precedes the text of the exception in the message's bytes.
struct FailureHead {
  Failure kind = Failure::kRun;
  std::int32_t peer = 0;  // kLost
};

FailureHead head_of(const std::exception& error) {
  if (const auto* lost = dynamic_cast<const PeerLost*>(&error)) return {Failure::kLost, lost->peer()};
  if (dynamic_cast<const DeadlineExceeded*>(&error) != nullptr) return {Failure::kDeadline, 0};
  if (dynamic_cast<const GroupAborted*>(&error) != nullptr) return {Failure::kAborted, 0};
  return {};
}

bool would_block(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

}  // namespace

bool Inbox::read_from(Stream& stream) {
  constexpr std::size_t kAtOnce = 64 * 1024;
  for (;;) {
    const std::size_t held = bytes_.size();
    bytes_.resize(held + kAtOnce);
    const ssize_t got = stream.read(std::span(bytes_).subspan(held));
    const int error = errno;
    bytes_.resize(held + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    errno = error;
    if (got == 0 || (got < 0 && !would_block(got) && errno != EINTR)) return false;
    // The head of the first message is checked before its bytes are gathered, so no more is held than a message may be.
    if (bytes_.size() >= sizeof(Header)) {
      Header header;
      std::memcpy(&header, bytes_.data(), sizeof(header));
      if (header.mark != kMark || header.bytes > most_bytes_) return false;
      if (bytes_.size() >= sizeof(header) + header.bytes) return true;
    }
    if (got < 0 && errno != EINTR) return true;
  }
}

std::optional<Message> Inbox::next() {
  Header header;
  if (bytes_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (header.mark != kMark || header.bytes > most_bytes_ || bytes_.size() < sizeof(header) + header.bytes)
    return std::nullopt;  // read_from() says what is wrong with it
  const auto begin = bytes_.begin() + sizeof(header), end = begin + static_cast<std::ptrdiff_t>(header.bytes);
  Message message{.kind = header.kind, .patience = header.patience, .bytes = std::vector<std::byte>(begin, end)};
  bytes_.erase(bytes_.begin(), end);
  return message;
}

std::vector<std::byte> bytes_of(const Message& message) {
  const Header header{.bytes = message.bytes.size(), .patience = message.patience, .kind = message.kind, .mark = kMark};
  std::vector<std::byte> bytes(sizeof(header) + message.bytes.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::ranges::copy(message.bytes, bytes.begin() + sizeof(header));
  return bytes;
}

Connection::Connection(Stream stream, int peer, std::string name)
    : stream_(std::move(stream)), peer_(peer), name_(std::move(name)) {}

void Connection::hang_up() { ::shutdown(stream_.number(), SHUT_RDWR); }

void Connection::lose(const std::string& how) const { throw PeerLost(peer_, concat(name_, " ", how)); }

void Connection::send(std::uint32_t kind, std::int64_t patience, std::span<const Bytes> parts, const Limits& limits) {
  Header header{.bytes = 0, .patience = patience, .kind = kind, .mark = kMark};
  for (const Bytes part : parts) header.bytes += part.size();
  std::vector<Bytes> all{std::as_bytes(std::span(&header, 1))};
  std::ranges::copy_if(parts, std::back_inserter(all), [](const Bytes part) { return !part.empty(); });
  send_all(all, limits);
}

// Hands up to kMost parts at a time to the system, without copying them together, and drops what the system has taken
// from the front of `parts`. Waits only when the system takes nothing.
void Connection::send_all(std::span<Bytes> parts, const Limits& limits) {
  constexpr std::size_t kMost = 64;
  std::array<iovec, kMost> pieces{};
  while (!parts.empty()) {
    const std::size_t count = std::min(parts.size(), kMost);
    for (std::size_t i = 0; i < count; ++i)
      pieces[i] = {.iov_base = const_cast<std::byte*>(parts[i].data()), .iov_len = parts[i].size()};
    const ssize_t sent = stream_.write(std::span(pieces).first(count));
    if (would_block(sent)) {
      pollfd wait{stream_.number(), POLLOUT, 0};
      poll_until({&wait, 1}, limits, concat(name_, " to take a message"));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) lose(concat("is gone: ", std::generic_category().message(errno)));
    auto left = static_cast<std::size_t>(sent);
    while (!parts.empty() && left >= parts.front().size()) {
      left -= parts.front().size();
      parts = parts.subspan(1);
    }
    if (!parts.empty()) parts.front() = parts.front().subspan(left);
  }
}

// The header says how many bytes follow, so a message takes one allocation.
Message Connection::receive(const Limits& limits) {
  Header header;
  receive_all(std::as_writable_bytes(std::span(&header, 1)), limits);
  if (header.mark != kMark) lose("sent something that is no message; it may be of another version");
  if (header.bytes > kMostBytes) lose(concat("sent a message of ", header.bytes, " bytes, more than any has"));
  Message message{.kind = header.kind, .patience = header.patience, .bytes = {}};
  for (std::size_t got = 0; got < header.bytes;) {
    message.bytes.resize(std::min<std::size_t>(header.bytes, std::max(kRoomAtOnce, 2 * got)));
    receive_all(std::span(message.bytes).subspan(got), limits);
    got = message.bytes.size();
  }
  return message;
}

// Tries before it waits: the bytes are often there already, and a wait costs two more system calls.
void Connection::receive_all(std::span<std::byte> into, const Limits& limits) {
  while (!into.empty()) {
    const ssize_t got = stream_.read(into);
    if (would_block(got)) {
      pollfd wait{stream_.number(), POLLIN, 0};
      poll_until({&wait, 1}, limits, concat("an answer of ", name_));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) lose("hung up: it died, failed or ended");
    if (got < 0) lose(concat("is gone: ", std::generic_category().message(errno)));
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

Message failure_message(const std::exception& error, std::uint32_t kind) {
  const FailureHead head = head_of(error);
  const std::string text = error.what();
  Message message{.kind = kind, .patience = -1, .bytes = std::vector<std::byte>(sizeof(head) + text.size())};
  std::memcpy(message.bytes.data(), &head, sizeof(head));
  std::memcpy(message.bytes.data() + sizeof(head), text.data(), text.size());
  return message;
}

void throw_failure(const Message& message) {
  FailureHead head;
  if (message.bytes.size() < sizeof(head))
    throw RunError(
        concat("another member failed, and its message of ", message.bytes.size(), " bytes does not say why"));
  std::memcpy(&head, message.bytes.data(), sizeof(head));
  const std::string text(reinterpret_cast<const char*>(message.bytes.data()) + sizeof(head),
                         message.bytes.size() - sizeof(head));
  switch (head.kind) {
    case Failure::kLost:
      throw PeerLost(head.peer, text);
    case Failure::kDeadline:
      throw DeadlineExceeded(text);
    case Failure::kAborted:
      throw GroupAborted(text);
    case Failure::kRun:
      break;
  }
  throw RunError(text);
}

}  // namespace tandem::net
