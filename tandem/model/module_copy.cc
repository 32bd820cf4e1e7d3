#include "tandem/model/module_copy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/ordered_dict.h>

#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

using Tensors = torch::OrderedDict<std::string, at::Tensor>;

std::string describe(const at::Tensor* tensor) {
  if (!tensor) return "missing";
  if (!tensor->defined()) return "undefined";
  return concat(tensor->sizes(), " ", tensor->scalar_type());
}

void compare(const char* kind, const Tensors& from, const Tensors& to, std::vector<std::string>& faults) {
  const auto fault = [&](const std::string& name, const at::Tensor* here, const at::Tensor* there) {
    faults.push_back(concat("the modules differ at ", kind, " \"", name, "\": ", describe(here), " here, ",
                            describe(there), " there"));
  };
  for (const auto& item : from) {
    const auto* there = to.find(item.key());
    if (!there || describe(&item.value()) != describe(there)) fault(item.key(), &item.value(), there);
  }
  for (const auto& item : to) {
    if (!from.contains(item.key())) fault(item.key(), nullptr, &item.value());
  }
}

void copy(const Tensors& from, const Tensors& to) {
  for (const auto& item : to) {
    if (item.value().defined()) item.value().detach().copy_(from[item.key()]);
  }
}

}  // namespace

void copy_module(const torch::nn::Module& from, torch::nn::Module& to) {
  const at::NoGradGuard no_grad;
  const auto parameters = std::pair(from.named_parameters(), to.named_parameters());
  const auto buffers = std::pair(from.named_buffers(), to.named_buffers());
  std::vector<std::string> faults;
  compare("parameter", parameters.first, parameters.second, faults);
  compare("buffer", buffers.first, buffers.second, faults);
  if (!faults.empty()) throw ConfigError(std::move(faults));
  copy(parameters.first, parameters.second);
  copy(buffers.first, buffers.second);
}

}  // namespace tandem::model
