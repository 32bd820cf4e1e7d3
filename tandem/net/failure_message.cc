#include "tandem/net/failure_message.h"

#include <cstring>
#include <string>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::net {
namespace {

enum class Kind : std::int32_t { kRun, kLost, kDeadline, kAborted };
// Precedes the text of the exception in the message's bytes.
struct Head {
  Kind kind = Kind::kRun;
  std::int32_t peer = 0;  // kLost
};

Head head_of(const std::exception& error) {
  if (const auto* lost = dynamic_cast<const PeerLost*>(&error)) return {Kind::kLost, lost->peer()};
  if (dynamic_cast<const DeadlineExceeded*>(&error) != nullptr) return {Kind::kDeadline, 0};
  if (dynamic_cast<const GroupAborted*>(&error) != nullptr) return {Kind::kAborted, 0};
  return {};
}

}  // namespace

Message failure_message(const std::exception& error, std::uint32_t kind) {
  const Head head = head_of(error);
  const std::string text = error.what();
  Message message{.kind = kind, .patience = -1, .bytes = std::vector<std::byte>(sizeof(head) + text.size())};
  std::memcpy(message.bytes.data(), &head, sizeof(head));
  std::memcpy(message.bytes.data() + sizeof(head), text.data(), text.size());
  return message;
}

void throw_failure(const Message& message) {
  Head head;
  TANDEM_CHECK(message.bytes.size() >= sizeof(head), "not the message of a failure");
  std::memcpy(&head, message.bytes.data(), sizeof(head));
  const std::string text(reinterpret_cast<const char*>(message.bytes.data()) + sizeof(head),
                         message.bytes.size() - sizeof(head));
  switch (head.kind) {
    case Kind::kLost:
      throw PeerLost(head.peer, text);
    case Kind::kDeadline:
      throw DeadlineExceeded(text);
    case Kind::kAborted:
      throw GroupAborted(text);
    case Kind::kRun:
      break;
  }
  throw RunError(text);
}

}  // namespace tandem::net
