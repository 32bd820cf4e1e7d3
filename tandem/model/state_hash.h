// model/state_hash.h: tensors by name: copies between those of the same names, and SHA-256 over them, which is how "the
// same bits" is tested and recorded.
//
// Threads: any, while nothing writes to the tensors. Tensors of other devices are copied to the CPU first.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tandem::model {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Over the little-endian bytes of the tensors alone, in order: params_sha256 of the parameters. The elements count in
/// the order of their indices, whatever the strides. 64 lower-case hexadecimal digits.
[[nodiscard]] std::string bytes_sha256(const NamedTensors& tensors);
/// Over name, dtype, shape and bytes of each tensor, in the order of their names: state_sha256. A name that comes twice
/// is a defect of the caller (InvariantError).
[[nodiscard]] std::string state_sha256(NamedTensors tensors);

/// The named parameters of a module, in the module's order, as bytes_sha256() and checkpoints take them.
[[nodiscard]] NamedTensors named_parameters_of(const torch::nn::Module& module);
/// The parameters and the defined buffers of `module`, alive and without autograd, under the names of its state_dict().
/// Not the buffers that are registered and never given a value, as in a norm without running statistics.
[[nodiscard]] NamedTensors tensors_of(const torch::nn::Module& module);
/// tensors_of() by the names that they have in a run's "state": "parameters.NAME" and "buffers.NAME".
[[nodiscard]] NamedTensors named_state_of(const torch::nn::Module& module);

/// Copies every tensor of `saved` into the one of `live` with its name. Throws CheckpointError listing everything that
/// is missing on either side or differs in shape or dtype; `live` is then unchanged.
void copy_named(const NamedTensors& saved, const NamedTensors& live);

/// Copies all parameters (frozen ones too) and all buffers, across devices if need be. Flat ones stay flat.
/// Throws ConfigError listing everything that differs in name, shape or dtype; `to` is then unchanged.
void copy_module(const torch::nn::Module& from, torch::nn::Module& to);

}  // namespace tandem::model
