#include "tandem/model/files/safetensors_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold the bytes of memory as they are");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kDataAlignment = 8;
constexpr std::size_t kMostDimensions = 64;  // torch's own limit
constexpr std::string_view kMetadataKey = "__metadata__";

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kDtypes{{{"F64", at::kDouble},
                                                                               {"F32", at::kFloat},
                                                                               {"F16", at::kHalf},
                                                                               {"BF16", at::kBFloat16},
                                                                               {"I64", at::kLong},
                                                                               {"I32", at::kInt},
                                                                               {"I16", at::kShort},
                                                                               {"I8", at::kChar},
                                                                               {"U8", at::kByte},
                                                                               {"BOOL", at::kBool}}};

// The format's name of the entry's dtype.
std::string_view name_of(const SafetensorsEntry& entry) {
  const auto row = std::ranges::find(kDtypes, entry.dtype, [](const auto& each) { return each.second; });
  if (row != kDtypes.end()) return row->first;
  throw CheckpointError(concat("tensor \"", entry.name, "\" has dtype ", entry.dtype,
                               ", which a safetensors file of tandem cannot hold; convert it first"));
}

template <typename... Values>
[[noreturn]] void refuse(const Values&... values) {
  throw CheckpointError(concat("not a whole safetensors file: ", values...));
}

at::ScalarType parse_dtype(const std::string& text, const std::string& tensor) {
  const auto row = std::ranges::find(kDtypes, text, [](const auto& each) { return each.first; });
  if (row == kDtypes.end()) refuse("tensor \"", tensor, "\" has dtype \"", text, "\", which is not one that is read");
  return row->second;
}

// The bytes of a tensor. Shapes whose product does not fit 63 bits are refused. Extents of zero count as one in this
// product, because LibTorch multiplies the other extents for the strides.
std::uint64_t bytes_of(const SafetensorsEntry& entry) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (entry.shape.size() > kMostDimensions)
    refuse("tensor \"", entry.name, "\" has ", entry.shape.size(), " dimensions");
  std::uint64_t bytes = c10::elementSize(entry.dtype);
  bool empty = false;
  for (const auto size : entry.shape) {
    if (size < 0) refuse("tensor \"", entry.name, "\" has a dimension of ", size);
    empty = empty || size == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > kMost / factor) refuse("the shape of tensor \"", entry.name, "\" has too many elements");
    bytes *= factor;
  }
  return empty ? 0 : bytes;
}

SafetensorsEntry parse_entry(const std::string& name, const JsonValue& value) {
  SafetensorsEntry entry{name, parse_dtype(value.at("dtype").as_string(), name), {}, 0, 0};
  if (value.as_object().size() != 3) refuse("tensor \"", name, "\" has more than dtype, shape and data_offsets");
  for (const auto& size : value.at("shape").as_array()) entry.shape.push_back(size.as_int64());
  const auto& offsets = value.at("data_offsets").as_array();
  if (offsets.size() != 2) refuse("tensor \"", name, "\" has ", offsets.size(), " data_offsets; 2 are needed");
  entry.begin = offsets[0].as_uint64();
  entry.end = offsets[1].as_uint64();
  return entry;
}

// Sorts the entries by place and makes sure that they cover the data exactly: each begins where the one before it ends.
void check_cover(SafetensorsLayout& layout, std::uint64_t data_bytes) {
  std::ranges::stable_sort(layout.entries, {}, [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  std::uint64_t at = 0;
  for (const auto& entry : layout.entries) {
    if (entry.begin != at || entry.end < entry.begin || entry.end > data_bytes) {
      refuse("tensor \"", entry.name, "\" says that it lies at bytes ", entry.begin, " to ", entry.end, " of the ",
             data_bytes, " bytes of data; it should begin at ", at,
             " and end within them (a file that was cut off looks like this)");
    }
    if (const auto needed = bytes_of(entry); entry.end - entry.begin != needed) {
      refuse("tensor \"", entry.name, "\" has ", entry.end - entry.begin, " bytes where its shape and dtype need ",
             needed);
    }
    at = entry.end;
  }
  if (at != data_bytes)
    refuse(data_bytes - at, " bytes after the last tensor, which ends at byte ", layout.data_begin + at);
}

}  // namespace

SafetensorsLayout parse_safetensors(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) refuse("it has ", file.size(), " bytes; the length of the header alone takes 8");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMostSafetensorsHeader) {
    refuse("byte 0: a header of ", length, " bytes; at most ", kMostSafetensorsHeader, " are read");
  }
  if (length > file.size() - kLengthBytes) {
    refuse("byte 0: a header of ", length, " bytes, but ", file.size() - kLengthBytes, " follow");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) refuse("byte 8: the header does not begin with '{'");

  SafetensorsLayout layout;
  layout.data_begin = kLengthBytes + length;
  try {
    const JsonValue header = read_json(text);
    for (const auto& [name, value] : header.as_object()) {
      if (name != kMetadataKey) {
        layout.entries.push_back(parse_entry(name, value));
        continue;
      }
      for (const auto& [key, entry] : value.as_object()) layout.metadata.emplace(key, entry.as_string());
    }
  } catch (const JsonError& error) {
    refuse("header, counted from byte 8: ", error.what());
  }
  check_cover(layout, file.size() - layout.data_begin);
  return layout;
}

// Spaces fill the header up, so that the data begins at a multiple of 8 bytes.
std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries, const SafetensorsMetadata& metadata) {
  JsonWriter json;
  json.begin_object();
  if (!metadata.empty()) {
    json.key(kMetadataKey).begin_object();
    for (const auto& [key, value] : metadata) json.key(key).value(value);
    json.end_object();
  }
  std::uint64_t at = 0;
  for (auto& entry : entries) {
    TANDEM_CHECK(entry.name != kMetadataKey, "a tensor cannot be named ", kMetadataKey);
    entry.begin = at;
    entry.end = at += bytes_of(entry);
    json.key(entry.name).begin_object().key("dtype").value(name_of(entry)).key("shape").begin_array();
    for (const auto size : entry.shape) json.value(size);
    json.end_array().key("data_offsets").begin_array().value(entry.begin).value(entry.end).end_array().end_object();
  }
  std::string text = json.end_object().text();
  text.append((kDataAlignment - text.size() % kDataAlignment) % kDataAlignment, ' ');
  const std::uint64_t length = text.size();
  std::string header(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + text;
}

}  // namespace tandem::model
