#include "tandem/model/files/named_copy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <map>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

std::string kind(const at::Tensor& tensor) { return concat(c10::toString(tensor.scalar_type()), " ", tensor.sizes()); }

// Copies when there are no differences, which it returns, a sentence each. `source` and `target` are what they call the
// two sides.
std::vector<std::string> copy_unless_different(const NamedTensors& saved, const NamedTensors& live, const char* source,
                                               const char* target) {
  std::map<std::string, at::Tensor> from(saved.begin(), saved.end());
  std::vector<std::string> faults;
  for (const auto& [name, tensor] : live) {
    const auto found = from.find(name);
    if (found == from.end()) {
      faults.push_back(concat("'", name, "' (", kind(tensor), ") is missing in ", source));
    } else if (kind(found->second) != kind(tensor)) {
      faults.push_back(
          concat("'", name, "' is ", kind(found->second), " in ", source, " and ", kind(tensor), " in ", target));
    }
  }
  std::map<std::string, at::Tensor> to(live.begin(), live.end());
  for (const auto& [name, tensor] : saved) {
    if (!to.contains(name))
      faults.push_back(concat("'", name, "' (", kind(tensor), ") of ", source, " has no place in ", target));
  }
  const at::NoGradGuard no_grad;
  if (faults.empty()) {
    for (auto& [name, tensor] : to) tensor.copy_(from[name]);
  }
  return faults;
}

}  // namespace

NamedTensors tensors_of(const torch::nn::Module& module) {
  NamedTensors all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value().detach());
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) all.emplace_back(item.key(), item.value().detach());
  }
  return all;
}

void copy_named(const NamedTensors& saved, const NamedTensors& live) {
  std::string text;
  for (const std::string& fault : copy_unless_different(saved, live, "the checkpoint", "the model"))
    text += "\n  - " + fault;
  if (!text.empty()) throw CheckpointError("the checkpoint is of another model:" + text);
}

void copy_module(const torch::nn::Module& from, torch::nn::Module& to) {
  auto faults = copy_unless_different(tensors_of(from), tensors_of(to), "the module that is copied", "the other");
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

}  // namespace tandem::model
