#include "tandem/model/state_hash.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <span>

#include "tandem/base/check.h"
#include "tandem/base/digest/sha256.h"
#include "tandem/base/error.h"

namespace tandem::model {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes and files hold the bytes of memory as they are");

// Adds the elements in the order of their indices, whatever device and strides the tensor has.
void add_bytes(Sha256& hash, const std::string& name, const at::Tensor& tensor) {
  TANDEM_CHECK(tensor.defined() && tensor.layout() == at::kStrided, "\"", name, "\" is not a dense tensor");
  const at::Tensor plain = tensor.detach().contiguous().cpu();
  hash.update(std::span(static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()));
}

// Lengths go in front of what varies in length, so no two different states give the same stream of bytes.
void add_number(Sha256& hash, std::uint64_t number) { hash.update(std::as_bytes(std::span(&number, 1))); }

void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.update(text);
}

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

// Parameters and defined buffers, without autograd, with prefixes before their names.
NamedTensors tensors_under(const std::string& parameters, const std::string& buffers, const torch::nn::Module& module) {
  NamedTensors all;
  for (const auto& item : module.named_parameters()) all.emplace_back(parameters + item.key(), item.value().detach());
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) all.emplace_back(buffers + item.key(), item.value().detach());
  }
  return all;
}

}  // namespace

std::string bytes_sha256(const NamedTensors& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) add_bytes(hash, name, tensor);
  return hash.hex();
}

// Sorted by name, so that the order in which a program lists its state does not count.
std::string state_sha256(NamedTensors tensors) {
  std::ranges::sort(tensors, {}, &NamedTensors::value_type::first);
  Sha256 hash;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    TANDEM_CHECK(i == 0 || name != tensors[i - 1].first, "\"", name, "\" is part of the state twice");
    TANDEM_CHECK(tensor.defined(), "\"", name, "\" is undefined");
    add_text(hash, name);
    add_text(hash, at::toString(tensor.scalar_type()));
    add_number(hash, static_cast<std::uint64_t>(tensor.dim()));
    for (const auto size : tensor.sizes()) add_number(hash, static_cast<std::uint64_t>(size));
    add_bytes(hash, name, tensor);
  }
  return hash.hex();
}

NamedTensors named_parameters_of(const torch::nn::Module& module) {
  NamedTensors all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  return all;
}

NamedTensors tensors_of(const torch::nn::Module& module) { return tensors_under("", "", module); }

NamedTensors named_state_of(const torch::nn::Module& module) {
  return tensors_under("parameters.", "buffers.", module);
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
