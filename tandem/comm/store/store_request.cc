#include "tandem/comm/store/store_request.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

// The bytes: the amount, the sizes of the key and of the expected value, these two, and the value.
struct Head {
  std::int64_t amount = 0;
  std::uint64_t key_bytes = 0, expected_bytes = 0;
};

}  // namespace

net::Message message_of(const StoreRequest& request) {
  const Head head{.amount = request.amount, .key_bytes = request.key.size(), .expected_bytes = request.expected.size()};
  net::Message message{.kind = static_cast<std::uint32_t>(request.kind)};
  message.bytes.resize(sizeof(head) + request.key.size() + request.expected.size() + request.value.size());
  std::memcpy(message.bytes.data(), &head, sizeof(head));
  std::byte* end = message.bytes.data() + sizeof(head);
  for (const std::string* text : {&request.key, &request.expected, &request.value})
    end = std::ranges::copy(std::as_bytes(std::span(*text)), end).out;
  return message;
}

StoreRequest request_of(const net::Message& message) {
  Head head;
  const auto kind = static_cast<StoreRequest::Kind>(message.kind);
  const bool is_known = kind >= StoreRequest::Kind::kSet && kind <= StoreRequest::Kind::kCompareSet;
  const std::size_t size = message.bytes.size();
  if (is_known && size >= sizeof(head)) std::memcpy(&head, message.bytes.data(), sizeof(head));
  const std::size_t texts = size < sizeof(head) ? 0 : size - sizeof(head);
  // One after the other, so that no sum of two sizes overflows.
  if (!is_known || size < sizeof(head) || head.key_bytes > texts || head.expected_bytes > texts - head.key_bytes)
    throw RunError(concat("a message of ", size, " bytes and kind ", message.kind, " is no request to a store"));
  const auto* text = reinterpret_cast<const char*>(message.bytes.data()) + sizeof(head);
  const std::string_view all(text, texts);
  return {.kind = kind,
          .key = std::string(all.substr(0, head.key_bytes)),
          .value = std::string(all.substr(head.key_bytes + head.expected_bytes)),
          .expected = std::string(all.substr(head.key_bytes, head.expected_bytes)),
          .amount = head.amount};
}

}  // namespace tandem::comm
