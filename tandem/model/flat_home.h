// model/flat_home.h: finds tensors of a module that share memory, and brings tensors back whose memory was replaced.
//
// torch::load() and set_data() give a tensor other memory. Nothing tells who holds the old one, so the owner of flat
// memory compares addresses before each step, and calls bring_home() when one differs.
//
// Threads: caller-locks. Ownership: tensors share their memory with the module.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tandem::model {

/// A tensor of a module and the view of flat memory where its values belong.
struct Home {
  at::Tensor tensor, home;
};

/// A parameter or buffer of a module, as a message names it: `parameter "first.weight"`.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Every defined parameter and buffer of the module; one that is registered twice comes under each of its names.
[[nodiscard]] std::vector<NamedTensor> all_tensors_of(const torch::nn::Module& module);

/// Two different tensors of the module of which some bytes are the same; none when there are no such two. Tensors
/// without memory of their own layout (sparse, meta) and empty ones share nothing.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> sharing_memory(const torch::nn::Module& module);

/// Copies the values of each tensor that lies elsewhere to its home and makes it a view of that again. Throws
/// ConfigError, before anything is changed, naming a tensor whose device, dtype or shape is another now, or two tensors
/// of the module that share memory. Where all are at home it compares addresses, and nothing more.
void return_home(const torch::nn::Module& module, const std::vector<Home>& homes);

}  // namespace tandem::model
