#include "tandem/metrics/tensorboard_sink.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

// What TensorFlow's record reader does with a stored checksum (tensorflow/core/lib/hash/crc32c.h, Unmask).
std::uint32_t unmasked(std::uint32_t stored) {
  const std::uint32_t rotated = stored - 0xa282ead8U;
  return rotated >> 17 | rotated << 15;
}

// The payloads of a file of frames; a checksum that does not fit fails the test.
std::vector<std::string> unframe(std::string_view file) {
  std::vector<std::string> payloads;
  while (!file.empty()) {
    const std::uint64_t size = little_endian(file.substr(0, 8));
    EXPECT_EQ(unmasked(static_cast<std::uint32_t>(little_endian(file.substr(8, 4)))), crc32c(file.substr(0, 8)));
    const std::string_view payload = file.substr(12, size);
    EXPECT_EQ(unmasked(static_cast<std::uint32_t>(little_endian(file.substr(12 + size, 4)))), crc32c(payload));
    payloads.emplace_back(payload);
    file.remove_prefix(16 + size);
  }
  return payloads;
}

// Field number -> raw contents (varints and fixed words as numbers in `numbers`, the rest as bytes), in order.
struct Message {
  std::multimap<std::uint64_t, std::uint64_t> numbers;
  std::multimap<std::uint64_t, std::string> bytes;
};

std::uint64_t take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

Message decode(std::string_view text) {
  Message message;
  while (!text.empty()) {
    const std::uint64_t tag = take_varint(text), field = tag >> 3, wire = tag & 7;
    if (wire == 0) {
      message.numbers.emplace(field, take_varint(text));
      continue;
    }
    const std::size_t size = wire == 1 ? 8 : wire == 5 ? 4 : take_varint(text);
    if (wire == 2) {
      message.bytes.emplace(field, text.substr(0, size));
    } else {
      message.numbers.emplace(field, little_endian(text.substr(0, size)));
    }
    text.remove_prefix(size);
  }
  return message;
}

std::map<std::string, float> scalars_of(const Message& event) {
  std::map<std::string, float> scalars;
  const Message summary = decode(event.bytes.find(5)->second);
  for (const auto& [field, encoded] : summary.bytes) {
    const Message value = decode(encoded);
    const auto bits = static_cast<std::uint32_t>(value.numbers.find(2)->second);
    scalars[value.bytes.find(1)->second] = std::bit_cast<float>(bits);
  }
  return scalars;
}

// RFC 3720 appendix B.4 and the usual check value.
TEST(Crc32cTest, GivesThePublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(TensorBoardSinkTest, FramesCarryLengthAndChecksums) {
  const std::string frame = frame_tfrecord("abc");
  EXPECT_EQ(frame.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(unframe(frame), std::vector<std::string>{"abc"});
}

TEST(TensorBoardSinkTest, AFileIsAVersionAndOneEventARecord) {
  const TemporaryFolder folder;
  TensorBoardSink sink(folder.path(), "env_steps");
  Record record;
  record.add("env_steps", std::int64_t{1} << 40).add("loss/policy", 0.1).add("updates", std::int64_t{3});
  record.add("return", nullptr).add("note", MetricValue(std::string("text")));
  sink.write(record);
  EXPECT_EQ(sink.path().filename().string().find("events.out.tfevents."), 0u);

  const std::vector<std::string> events = unframe(read_file(sink.path()));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(decode(events[0]).bytes.find(3)->second, "brain.Event:2");
  const Message event = decode(events[1]);
  EXPECT_EQ(event.numbers.find(2)->second, std::uint64_t{1} << 40);
  const double wall = std::bit_cast<double>(event.numbers.find(1)->second);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(wall, now.count(), 60);
  EXPECT_EQ(scalars_of(event), (std::map<std::string, float>{{"loss/policy", 0.1F}, {"updates", 3.0F}}));
}

TEST(TensorBoardSinkTest, AResumedRunTellsReadersToForgetWhatCameLater) {
  const TemporaryFolder folder;
  const TensorBoardSink first(folder.path(), "env_steps"), resumed(folder.path(), "env_steps", 500);
  EXPECT_NE(first.path(), resumed.path());
  const std::vector<std::string> events = unframe(read_file(resumed.path()));
  ASSERT_EQ(events.size(), 2u);
  const Message start = decode(events[1]);
  EXPECT_EQ(start.numbers.find(2)->second, 501u);  // what was recorded at step 500 itself stays
  EXPECT_EQ(decode(start.bytes.find(7)->second).numbers.find(1)->second, 1u);
}

TEST(TensorBoardSinkTest, NeedsItsStep) {
  const TemporaryFolder folder;
  TensorBoardSink sink(folder.path(), "env_steps");
  Record record;
  record.add("loss", 1.0);
  EXPECT_THROW(sink.write(record), InvariantError);
}

}  // namespace
}  // namespace tandem
