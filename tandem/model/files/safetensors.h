// model/safetensors.h: tensors under names in a safetensors file, which Python's safetensors package reads as well.
//
// The format (github.com/huggingface/safetensors): 8 bytes little-endian length of the header; the header, a JSON
// object that maps each name to {"dtype", "shape", "data_offsets": [begin, end]}, may have "__metadata__" (text to
// text) and may end in spaces; then the data, which the tensors cover from first to last byte without gap or overlap.
//
// Dtypes: float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool.
// Reading is safe on any bytes: nothing is believed before it was compared with the size of what is there.
// Threads: any, while nothing writes to the tensors. Blocks on the disk.
// Errors: CheckpointError with the byte and the cause; callers that read a file add its name.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/model/state_hash.h"

namespace torch::nn {
class Module;
}

namespace tandem::model {

struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes from the start of the data
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

using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Hands the bytes of the file to `sink`, piece by piece, from first to last. Tensors of any device; larger elements
/// come first so that each is aligned, otherwise in the given order. Throws CheckpointError for a dtype that the format
/// does not have; a name that comes twice is a defect.
void write_safetensors(const NamedTensors& tensors, const SafetensorsMetadata& metadata, const ByteSink& sink);

/// A file that was read: CPU tensors that own their memory, in the order of the file.
struct TensorFile {
  NamedTensors tensors;
  SafetensorsMetadata metadata;

  /// Throws CheckpointError that names what is there.
  [[nodiscard]] const at::Tensor& at(std::string_view name) const;
};

/// Throws CheckpointError with the byte and the cause.
[[nodiscard]] TensorFile read_safetensors(std::span<const std::byte> file);

/// The parameters and buffers of a module as one file, whole or not there: what Python loads.
void save_weights_safetensors(const torch::nn::Module& module, const std::filesystem::path& path,
                              const SafetensorsMetadata& metadata = {});
/// The reverse. Throws CheckpointError listing every name that is missing, extra, or has another shape or dtype; the
/// module is then unchanged.
void load_weights_safetensors(torch::nn::Module& module, const std::filesystem::path& path);

}  // namespace tandem::model
