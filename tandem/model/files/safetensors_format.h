// model/safetensors_format.h: the layout of a safetensors file, without any tensor.
//
// The format (github.com/huggingface/safetensors): 8 bytes little-endian length of the header; the header, a JSON
// object that maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, may have "__metadata__" (text to
// text) and may end in spaces; then the data, which the tensors cover from first to last byte without gap or overlap.
//
// Safe on any bytes: nothing is believed before it was compared with the size of what is there.
// Threads: any. Errors: CheckpointError with the byte and the cause; callers that read a file add its name.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tandem::model {

struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes from the start of the data

  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsLayout {
  std::vector<SafetensorsEntry> entries;  // as they lie in the data
  SafetensorsMetadata metadata;
  std::uint64_t data_begin = 0;  // bytes from the start of the file
};

/// Length of the longest header that is read, as in the reference implementation.
inline constexpr std::uint64_t kMostSafetensorsHeader = 100'000'000;

/// Reads a whole file in memory. When it returns, each entry's bytes lie inside `file` and are as many as its shape
/// needs.
[[nodiscard]] SafetensorsLayout parse_safetensors(std::span<const std::byte> file);

/// Length and header of a file whose data has these entries in this order; `begin` and `end` are set. The data then
/// starts at a multiple of 8 bytes. Throws CheckpointError for a dtype that the format does not have.
[[nodiscard]] std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries,
                                                  const SafetensorsMetadata& metadata);

}  // namespace tandem::model
