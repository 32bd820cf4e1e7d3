#include "tandem/rl/policy/export/protobuf_message.h"

#include <algorithm>
#include <bit>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

constexpr int kMostFields = (1 << 29) - 1;
constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - 1;

}  // namespace

// Seven bits a byte, the lowest first; the highest bit of a byte says that another follows.
void ProtobufMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(0x80 | (value & 0x7f)));
  bytes_.push_back(static_cast<char>(value));
}

// The lowest three bits say how long the value is, the others which field it is.
void ProtobufMessage::begin(int field, Wire wire) {
  TANDEM_CHECK(field >= 1 && field <= kMostFields, "field ", field);
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

// A negative number takes ten bytes, as its two's complement of 64 bits.
ProtobufMessage& ProtobufMessage::integer(int field, std::int64_t value) {
  begin(field, Wire::kVarint);
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

// Little-endian on every machine.
ProtobufMessage& ProtobufMessage::real(int field, float value) {
  begin(field, Wire::kFixed32);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<char>(bits >> shift & 0xff));
  return *this;
}

// The size is looked at before anything is copied.
ProtobufMessage& ProtobufMessage::text(int field, std::string_view value) {
  begin(field, Wire::kLength);
  varint(value.size());
  if (value.size() > kMostBytes - std::min(kMostBytes, bytes_.size()))
    throw ConfigError(concat("a file of protobuf has at most ", kMostBytes, " bytes, and this one would have ",
                             bytes_.size() + value.size(), "; export the weights as .safetensors instead"));
  bytes_.append(value);
  return *this;
}

ProtobufMessage& ProtobufMessage::bytes(int field, std::span<const std::byte> value) {
  return text(field, {reinterpret_cast<const char*>(value.data()), value.size()});
}

}  // namespace tandem::rl
