#include "tandem/metrics/tensorboard_sink.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/process.h"

namespace tandem {
namespace {

// The four kinds of protobuf fields that an Event needs (protobuf.dev/programming-guides/encoding).
enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <typename Word>
void put_little_endian(std::string& out, Word value) {
  for (std::size_t i = 0; i < sizeof(Word); ++i) out += static_cast<char>(value >> (8 * i));
}

void put_tag(std::string& out, std::uint64_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<std::uint64_t>(wire));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_tag(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: wall_time = 1 (double), step = 2 (int64), and one of file_version = 3, summary = 5, session_log = 7.
constexpr std::uint64_t kFileVersion = 3, kSummary = 5, kSessionLog = 7;

// Returns an Event of the present time with `content` as its field `field`.
std::string event(std::int64_t step, std::uint64_t field, std::string_view content) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string out;
  put_tag(out, 1, Wire::kFixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(now.count()));
  put_tag(out, 2, Wire::kVarint);
  put_varint(out, static_cast<std::uint64_t>(step));
  put_bytes(out, field, content);
  return out;
}

// Summary: repeated value = 1; Value: tag = 1 (string), simple_value = 2 (float).
void put_scalar(std::string& summary, std::string_view tag, double number) {
  std::string value;
  put_bytes(value, 1, tag);
  put_tag(value, 2, Wire::kFixed32);
  put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
  put_bytes(summary, 1, value);
}

// SessionLog: status = 1, with the value START = 1. A reader then forgets the points of older files from this step on.
std::string session_start() {
  std::string out;
  put_tag(out, 1, Wire::kVarint);
  put_varint(out, 1);
  return out;
}

// TensorBoard reads the files of a folder in the order of their names, which therefore begin with the time.
std::filesystem::path new_name(const std::filesystem::path& folder) {
  static std::atomic<int> count{0};
  const std::string host = host_name();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return folder / concat("events.out.tfevents.", std::chrono::duration_cast<std::chrono::seconds>(now).count(), ".",
                         host.empty() ? "host" : host, ".", getpid(), ".", count.fetch_add(1));
}

// The remainder of each byte, by the reversed polynomial 0x1EDC6F41. One look a byte is enough for a few hundred bytes
// an update.
constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = remainder;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

// A checksum over bytes that hold checksums themselves is weak, so TensorFlow stores a masked one
// (core/lib/hash/crc32c.h).
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t remainder = 0xffffffff;
  for (const char c : bytes) remainder = remainder >> 8 ^ kCrcTable[(remainder ^ static_cast<unsigned char>(c)) & 0xff];
  return ~remainder;
}

std::string frame_tfrecord(std::string_view bytes) {
  std::string frame;
  put_little_endian(frame, static_cast<std::uint64_t>(bytes.size()));
  put_little_endian(frame, masked_crc(frame));
  frame += bytes;
  put_little_endian(frame, masked_crc(bytes));
  return frame;
}

TensorBoardSink::TensorBoardSink(const std::filesystem::path& folder, std::string step_field, std::int64_t resumed_at)
    : step_field_(std::move(step_field)), file_(new_name(folder)) {
  std::string head = frame_tfrecord(event(0, kFileVersion, "brain.Event:2"));
  if (resumed_at > 0) head += frame_tfrecord(event(resumed_at + 1, kSessionLog, session_start()));
  file_.append(head);
}

void TensorBoardSink::write(const Record& record) {
  const MetricValue* step = record.find(step_field_);
  TANDEM_CHECK(step != nullptr && std::holds_alternative<std::int64_t>(*step), "a record without the integer '",
               step_field_, "'");
  std::string summary;
  for (const auto& [name, value] : record.fields()) {
    if (name == step_field_) continue;
    if (const std::optional<double> number = number_of(value)) put_scalar(summary, name, *number);
  }
  file_.append(frame_tfrecord(event(std::get<std::int64_t>(*step), kSummary, summary)));
}

}  // namespace tandem
