#include "tandem/model/module_buffers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::model {
namespace {

// Defined buffers, those registered twice once.
std::vector<std::pair<std::string, at::Tensor>> list_buffers(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    all.emplace_back(item.key(), item.value());
  }
  return all;
}

// Lists every buffer that cannot be a view into one flat tensor on one device.
void check(const std::vector<std::pair<std::string, at::Tensor>>& buffers) {
  std::vector<std::string> faults;
  for (const auto& [name, tensor] : buffers) {
    if (tensor.layout() != at::kStrided) {
      faults.push_back(concat("buffer \"", name, "\" has layout ", tensor.layout(), "; only dense ones can be flat"));
    }
    if (tensor.device() != buffers.front().second.device()) {
      faults.push_back(concat("buffers lie on several devices: \"", buffers.front().first, "\" on ",
                              buffers.front().second.device(), ", \"", name, "\" on ", tensor.device()));
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

FlatModuleBuffer make_flat(const std::vector<std::pair<std::string, at::Tensor>>& buffers, at::ScalarType dtype) {
  FlatModuleBuffer flat;
  flat.merge = at::isFloatingType(dtype) ? FlatModuleBuffer::Merge::kMean : FlatModuleBuffer::Merge::kShardZero;
  std::int64_t count = 0;
  for (const auto& [name, tensor] : buffers) {
    if (tensor.scalar_type() != dtype) continue;
    flat.slots.push_back({name, tensor.sizes().vec(), count, tensor.numel(), 0});
    count += aligned(tensor.numel(), dtype);
  }
  flat.values = at::zeros({count}, buffers.front().second.options().dtype(dtype).requires_grad(false));
  return flat;
}

}  // namespace

ModuleBuffers::ModuleBuffers(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {
  TANDEM_EXPECTS(module_ != nullptr, "ModuleBuffers needs a module");
  const at::NoGradGuard no_grad;
  named_ = list_buffers(*module_);
  check(named_);
  std::vector<at::ScalarType> dtypes;
  for (const auto& [name, tensor] : named_) {
    if (std::ranges::find(dtypes, tensor.scalar_type()) == dtypes.end()) dtypes.push_back(tensor.scalar_type());
  }
  for (const auto dtype : dtypes) {
    auto& flat = flats_.emplace_back(make_flat(named_, dtype));
    auto slot = flat.slots.begin();
    for (const auto& [name, tensor] : named_) {
      if (tensor.scalar_type() != dtype) continue;
      at::Tensor view = flat.values.narrow(0, slot->offset, slot->count).view(slot->shape).variable_data();
      view.copy_(tensor);
      tensor.set_data(view);
      homes_.push_back({tensor, view});
      ++slot;
    }
    starts_.push_back(flat.values.clone());
  }
}

void ModuleBuffers::save_start() {
  return_home();
  for (std::size_t i = 0; i < flats_.size(); ++i) starts_[i].copy_(flats_[i].values);
}

// Addresses are compared first: a buffer that was moved away would silently keep the values of the last shard.
void ModuleBuffers::restore_start() {
  return_home();
  for (std::size_t i = 0; i < flats_.size(); ++i) flats_[i].values.copy_(starts_[i]);
}

void ModuleBuffers::return_home() { model::return_home(*module_, homes_); }

}  // namespace tandem::model
