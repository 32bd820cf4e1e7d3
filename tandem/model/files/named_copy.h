// model/named_copy.h: the tensors of a module by name, and copies between tensors of the same names.
#pragma once
#include "tandem/model/state_hash.h"

namespace torch::nn {
class Module;
}

namespace tandem::model {

/// The parameters and the defined buffers of `module`, alive and without autograd, under the names of its state_dict().
[[nodiscard]] NamedTensors tensors_of(const torch::nn::Module& module);

/// Copies every tensor of `saved` into the one of `live` with its name. Throws CheckpointError listing everything that
/// is missing on either side or differs in shape or dtype; `live` is then unchanged.
void copy_named(const NamedTensors& saved, const NamedTensors& live);

/// Copies all parameters (frozen ones too) and all buffers, across devices if need be. Flat ones stay flat.
/// Throws ConfigError listing everything that differs in name, shape or dtype; `to` is then unchanged.
void copy_module(const torch::nn::Module& from, torch::nn::Module& to);

}  // namespace tandem::model
