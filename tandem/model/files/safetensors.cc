#include "tandem/model/files/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/model/files/file_kind.h"
#include "tandem/model/state_hash.h"

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
    TANDEM_EXPECTS(entry.name != kMetadataKey, "a tensor cannot be named ", kMetadataKey, " in a safetensors file");
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

// The header needs all sizes first; then the tensors go out one by one, so that at most one copy is in memory.
void write_safetensors(const NamedTensors& tensors, const SafetensorsMetadata& metadata, const ByteSink& sink) {
  std::vector<std::pair<SafetensorsEntry, at::Tensor>> items;
  for (const auto& [name, tensor] : tensors) {
    TANDEM_EXPECTS(tensor.defined() && tensor.layout() == at::kStrided, "\"", name, "\" is not a dense tensor, and ",
                   "safetensors files hold no others");
    items.push_back({{name, tensor.scalar_type(), tensor.sizes().vec(), 0, 0}, tensor});
  }
  std::ranges::stable_sort(items, std::ranges::greater(), [](const auto& item) { return item.second.element_size(); });
  std::vector<SafetensorsEntry> entries;
  std::map<std::string_view, int> names;
  for (const auto& item : items) {
    TANDEM_EXPECTS(++names[item.first.name] == 1, "two tensors are named \"", item.first.name, "\"");
    entries.push_back(item.first);
  }
  const std::string header = make_safetensors_header(entries, metadata);
  sink(std::as_bytes(std::span(header)));
  for (const auto& item : items) {
    const at::Tensor plain = item.second.detach().contiguous().cpu();
    if (plain.nbytes() > 0) sink(std::span(static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()));
  }
}

const at::Tensor& TensorFile::at(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  if (found != tensors.end()) return found->second;
  const std::string there = joined(tensors, [](const auto& tensor) { return tensor.first; });
  throw CheckpointError(concat("there is no tensor \"", name, "\"; there is ", there.empty() ? "none" : there));
}

TensorFile read_safetensors(std::span<const std::byte> file) {
  auto layout = parse_safetensors(file);
  TensorFile read{{}, std::move(layout.metadata)};
  for (auto& entry : layout.entries) {
    at::Tensor tensor = at::empty(entry.shape, entry.dtype);
    const auto bytes = file.subspan(layout.data_begin + entry.begin, entry.end - entry.begin);
    if (entry.dtype == at::kBool &&
        std::ranges::any_of(bytes, [](std::byte value) { return std::to_integer<int>(value) > 1; })) {
      throw CheckpointError(concat("tensor \"", entry.name, "\" is boolean but has elements other than 0 and 1"));
    }
    if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    read.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return read;
}

void save_weights_safetensors(const torch::nn::Module& module, const std::filesystem::path& path,
                              const SafetensorsMetadata& metadata) {
  AtomicFile file(path);
  write_safetensors(tensors_of(module), metadata, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

void load_weights_safetensors(torch::nn::Module& module, const std::filesystem::path& path) {
  const std::string content = read_file(path);
  try {
    copy_named(read_safetensors(std::as_bytes(std::span(content))).tensors, tensors_of(module));
  } catch (const CheckpointError& error) {
    const std::string kind = begins_as_safetensors(content) ? "" : concat(kind_of_file(content), ". It is ");
    throw CheckpointError(concat(path.string(), ": ", kind, error.what()));
  }
}

}  // namespace tandem::model
