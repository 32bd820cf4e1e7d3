// rl/policy/export/protobuf_message.h: a message of Protocol Buffers as its bytes, field by field (the wire format of
// protobuf.dev/programming-guides/encoding).
//
//   ProtobufMessage entry;
//   entry.text(1, "env").text(2, "CartPole-v1");
//   model.message(14, entry);
//
// A file of ONNX is such a message. Nothing is read, and no schema is checked: numbers and kinds of fields are the
// caller's, who has them from the format's .proto.
//
// Threads: single-thread. Errors: ConfigError for a message of 2 GiB or more, which no reader takes; InvariantError for
// a field number out of range.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tandem::rl {

/// Every function appends one field and returns the message, for the next. A repeated field is appended once for each
/// of its elements, in their order.
class ProtobufMessage {
 public:
  /// A field of the types int32, int64, uint64, bool and of enumerations.
  ProtobufMessage& integer(int field, std::int64_t value);
  /// A field of the type float.
  ProtobufMessage& real(int field, float value);
  /// A field of the types string (then it is to be UTF-8) and bytes.
  ProtobufMessage& text(int field, std::string_view value);
  ProtobufMessage& bytes(int field, std::span<const std::byte> value);
  ProtobufMessage& message(int field, const ProtobufMessage& value) { return text(field, value.bytes_); }

  [[nodiscard]] const std::string& encoded() const { return bytes_; }

 private:
  // How a field's value is told from what follows.
  enum class Wire { kVarint = 0, kLength = 2, kFixed32 = 5 };
  void begin(int field, Wire wire);
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace tandem::rl
