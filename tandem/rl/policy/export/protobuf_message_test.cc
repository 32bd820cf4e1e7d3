#include "tandem/rl/policy/export/protobuf_message.h"

#include <gtest/gtest.h>

#include <array>

#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

std::string hex(const ProtobufMessage& message) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : message.encoded()) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// The two examples of the format's own description.
TEST(ProtobufMessageTest, IntegersAndTextsAreThoseOfTheDescription) {
  EXPECT_EQ(hex(ProtobufMessage().integer(1, 150)), "089601");
  EXPECT_EQ(hex(ProtobufMessage().text(2, "testing")), "120774657374696e67");
  EXPECT_EQ(hex(ProtobufMessage().message(3, ProtobufMessage().integer(1, 150))), "1a03089601");
}

TEST(ProtobufMessageTest, IntegersOfAllSizesAreWritten) {
  EXPECT_EQ(hex(ProtobufMessage().integer(1, 0)), "0800");
  EXPECT_EQ(hex(ProtobufMessage().integer(1, 127)), "087f");
  EXPECT_EQ(hex(ProtobufMessage().integer(1, 128)), "088001");
  EXPECT_EQ(hex(ProtobufMessage().integer(1, -1)), "08ffffffffffffffffff01");
  EXPECT_EQ(hex(ProtobufMessage().integer(1, std::numeric_limits<std::int64_t>::max())), "08ffffffffffffffff7f");
}

TEST(ProtobufMessageTest, FieldsBeyondFifteenTakeTwoBytes) {
  EXPECT_EQ(hex(ProtobufMessage().integer(15, 1)), "7801");
  EXPECT_EQ(hex(ProtobufMessage().integer(16, 1)), "800101");
  EXPECT_THROW(ProtobufMessage().integer(0, 1), InvariantError);
  EXPECT_THROW(ProtobufMessage().integer(1 << 29, 1), InvariantError);
}

TEST(ProtobufMessageTest, FloatsAreLittleEndian) { EXPECT_EQ(hex(ProtobufMessage().real(2, 1.0F)), "150000803f"); }

TEST(ProtobufMessageTest, ElementsOfARepeatedFieldKeepTheirOrder) {
  EXPECT_EQ(hex(ProtobufMessage().integer(1, 2).integer(1, 1)), "08020801");
  const std::array<std::byte, 2> bytes{std::byte{0}, std::byte{255}};
  EXPECT_EQ(hex(ProtobufMessage().bytes(9, bytes)), "4a0200ff");
  EXPECT_EQ(hex(ProtobufMessage().text(9, "")), "4a00");
}

// The text is not read: a view of that size is enough to ask for more than a file may have.
TEST(ProtobufMessageTest, MoreThanAReaderTakesIsRefused) {
  const char one = 'x';
  ProtobufMessage message;
  EXPECT_THROW(message.text(1, std::string_view(&one, std::size_t{1} << 31)), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
