// model/safetensors.h: tensors under names in a safetensors file, which Python's safetensors package reads as well.
//
// Dtypes: float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool.
// Threads: any, while nothing writes to the tensors. Blocks on the disk.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tandem/model/files/safetensors_format.h"
#include "tandem/model/state_hash.h"

namespace torch::nn {
class Module;
}

namespace tandem::model {

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
