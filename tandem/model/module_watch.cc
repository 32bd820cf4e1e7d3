#include "tandem/model/module_watch.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/flat_home.h"

namespace tandem::model {
namespace {

using Names = std::vector<std::pair<std::string, const void*>>;

// The parameters of one module without those below it. Module::parameters() would copy them, with their names.
struct Own : torch::nn::Module {
  static const torch::OrderedDict<std::string, at::Tensor>& parameters_of(const torch::nn::Module& module) {
    return module.*(&Own::parameters_);
  }
};

Names names_of(const torch::nn::Module& module) {
  Names names;
  for (const NamedTensor& each : all_tensors_of(module))
    names.emplace_back(each.name, each.tensor.unsafeGetTensorImpl());
  return names;
}

const void* find(const Names& names, const std::string& name) {
  const auto found = std::ranges::find(names, name, &Names::value_type::first);
  return found == names.end() ? nullptr : found->second;
}

constexpr const char* kAdvice =
    " after the module was bound. Its values and gradients would stay on this replica. Register it in the constructor, "
    "or run one forward pass before DataParallel, or whatever binds the module, is made";

}  // namespace

ModuleWatch::ModuleWatch(const torch::nn::Module& module) : module_(module), names_(names_of(module)) { visit(seen_); }

void ModuleWatch::visit(Addresses& into) const {
  into.clear();
  module_.apply([&](const torch::nn::Module& each) {
    into.push_back(&each);
    for (const auto& item : Own::parameters_of(each)) into.push_back(item.value().unsafeGetTensorImpl());
    for (const auto& item : each.named_buffers(/*recurse=*/false)) into.push_back(item.value().unsafeGetTensorImpl());
  });
}

void ModuleWatch::require_unchanged() {
  visit(now_);
  if (now_ == seen_) return;
  const Names now = names_of(module_);
  for (const auto& [name, tensor] : now) {
    const void* const before = find(names_, name);
    if (before == nullptr) throw ConfigError(concat(name, " was registered", kAdvice));
    if (before != tensor) throw ConfigError(concat(name, " was replaced by another tensor", kAdvice));
  }
  for (const auto& [name, tensor] : names_) {
    if (find(now, name) == nullptr)
      throw ConfigError(concat(name, " is no longer registered: it was removed", kAdvice));
  }
  seen_ = now_;
}

}  // namespace tandem::model
