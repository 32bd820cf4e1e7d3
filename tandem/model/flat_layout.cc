#include "tandem/model/flat_layout.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/flat_home.h"

// The plan: list the parameters, mark those with sparse gradients, give each its group, check all, and then lay out one
// buffer for each dtype and kind of gradient. Faults are collected, so that a user sees all of them at once; nothing of
// the module changes here.
namespace tandem::model {
namespace {

using Faults = std::vector<std::string>;

// "actor" matches "actor" and "actor.0.weight", but not "actors.0.weight". A tied parameter matches by any of its
// names.
bool matches(const std::string& name, const std::string& prefix) {
  return name == prefix || (name.size() > prefix.size() && name[prefix.size()] == '.' && name.starts_with(prefix));
}

bool matches(const LayoutParameter& parameter, const std::string& prefix) {
  return std::ranges::any_of(parameter.names, [&](const std::string& name) { return matches(name, prefix); });
}

// All parameters in the module's order; one that is registered under several names comes once, with all of them.
std::vector<LayoutParameter> list_parameters(const torch::nn::Module& module) {
  std::vector<LayoutParameter> all;
  std::unordered_map<const c10::TensorImpl*, std::size_t> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().defined()) continue;
    const auto [at, is_new] = seen.try_emplace(item.value().unsafeGetTensorImpl(), all.size());
    if (is_new) all.push_back({item.value(), {}, 0, false});
    all[at->second].names.push_back(item.key());
  }
  return all;
}

// The weights of embeddings whose options ask for sparse gradients. Options that are changed later are not seen here;
// the gradient is then of the other kind, which collect() reports by name.
std::unordered_set<const c10::TensorImpl*> weights_with_sparse_gradients(const torch::nn::Module& module) {
  std::unordered_set<const c10::TensorImpl*> weights;
  const auto note = [&](const torch::nn::Module& one) {
    if (const auto* embedding = dynamic_cast<const torch::nn::EmbeddingImpl*>(&one)) {
      if (embedding->options.sparse()) weights.insert(embedding->weight.unsafeGetTensorImpl());
    } else if (const auto* bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&one)) {
      if (bag->options.sparse()) weights.insert(bag->weight.unsafeGetTensorImpl());
    }
  };
  note(module);
  for (const auto& child : module.modules(/*include_self=*/false)) note(*child);
  return weights;
}

// Marks the weights of known modules, and the parameters that the caller named.
void mark_sparse(std::vector<LayoutParameter>& all, const torch::nn::Module& module,
                 const std::vector<std::string>& named, Faults& faults) {
  const auto known = weights_with_sparse_gradients(module);
  for (auto& parameter : all) parameter.sparse = known.contains(parameter.tensor.unsafeGetTensorImpl());
  for (const auto& name : named) {
    bool found = false;
    for (auto& parameter : all) {
      if (!matches(parameter, name)) continue;
      parameter.sparse = found = true;
    }
    if (!found) faults.push_back(concat("sparse_parameters: no parameter is named \"", name, "\" or lies under it"));
  }
}

// The first group with a matching prefix takes a parameter; a prefix that matches nothing is a fault, since it is most
// likely a misspelt name.
void assign_groups(std::vector<LayoutParameter>& all, const std::vector<ParameterGroup>& groups, Faults& faults) {
  for (auto& parameter : all) {
    const auto first = std::ranges::find_if(groups, [&](const ParameterGroup& group) {
      return std::ranges::any_of(group.prefixes, [&](const std::string& prefix) { return matches(parameter, prefix); });
    });
    parameter.group = first == groups.end() ? 0 : static_cast<int>(first - groups.begin());
  }
  for (const auto& group : groups) {
    for (const auto& prefix : group.prefixes) {
      if (std::ranges::any_of(all, [&](const LayoutParameter& parameter) { return matches(parameter, prefix); }))
        continue;
      faults.push_back(concat("parameter group \"", group.name, "\": no parameter is named \"", prefix,
                              "\" or lies under it; the first of the module is \"",
                              all.empty() ? "(none)" : all.front().names.front(), "\""));
    }
  }
}

// Refuses parameters that cannot be a view into a flat buffer, or that autograd would not treat as a parameter.
void check_kind(const LayoutParameter& parameter, Faults& faults) {
  const auto& tensor = parameter.tensor;
  const auto& name = parameter.names.front();
  const auto dtype = tensor.scalar_type();
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
    faults.push_back(
        concat("parameter \"", name, "\" has layout ", tensor.layout(), "; only dense tensors can be flat"));
  } else if (dtype != at::kFloat && dtype != at::kDouble && dtype != at::kHalf && dtype != at::kBFloat16) {
    faults.push_back(concat("parameter \"", name, "\" has dtype ", dtype,
                            "; float32, float64, float16 and bfloat16 can be trained"));
  } else if (!tensor.is_leaf()) {
    faults.push_back(concat("parameter \"", name,
                            "\" is the result of an operation and not a leaf; register the tensor "
                            "that it is computed from, or a detached copy"));
  }
}

void check_devices(const std::vector<LayoutParameter>& trainable, Faults& faults) {
  for (const auto& parameter : trainable) {
    if (parameter.tensor.device() == trainable.front().tensor.device()) continue;
    faults.push_back(concat("parameters lie on several devices: \"", trainable.front().names.front(), "\" on ",
                            trainable.front().tensor.device(), ", \"", parameter.names.front(), "\" on ",
                            parameter.tensor.device(), "; move the module to one with module->to(device)"));
    return;
  }
}

// Two different tensors over the same memory would be torn apart by moving one to a place of its own.
void check_overlap(const torch::nn::Module& module, Faults& faults) {
  const auto two = sharing_memory(module);
  if (!two) return;
  faults.push_back(concat(two->first, " and ", two->second,
                          " are different tensors over the same memory; to tie them, "
                          "register the same tensor twice; else give one of them memory of its own (clone())"));
}

// Lays out the parameters of one dtype and kind of gradient: by group and, within a group, in the module's order.
LayoutBuffer plan_buffer(const std::vector<LayoutParameter>& trainable, at::ScalarType dtype, bool sparse, int groups) {
  LayoutBuffer buffer{{.values = {}, .slots = {}, .sparse = sparse}, {}};
  std::int64_t count = 0;
  for (int group = 0; group < groups; ++group) {
    for (std::size_t i = 0; i < trainable.size(); ++i) {
      const auto& parameter = trainable[i];
      if (parameter.tensor.scalar_type() != dtype || parameter.sparse != sparse || parameter.group != group) continue;
      buffer.flat.slots.push_back(
          {parameter.names.front(), parameter.tensor.sizes().vec(), count, parameter.tensor.numel(), group});
      buffer.members.push_back(i);
      count += aligned(parameter.tensor.numel(), dtype);
    }
  }
  buffer.flat.values = at::zeros({count}, trainable.front().tensor.options().dtype(dtype).requires_grad(false));
  return buffer;
}

}  // namespace

FlatLayout plan_flat_layout(const torch::nn::Module& module, const FlatParameters::Options& options) {
  Faults faults;
  auto all = list_parameters(module);
  mark_sparse(all, module, options.sparse_parameters, faults);
  assign_groups(all, options.groups, faults);

  FlatLayout layout;
  layout.groups = std::max(1, static_cast<int>(options.groups.size()));
  for (auto& parameter : all) {
    const bool trains = parameter.tensor.requires_grad();
    if (trains) check_kind(parameter, faults);
    (trains ? layout.trainable : layout.frozen).push_back(std::move(parameter));
  }
  if (layout.trainable.empty()) {
    faults.push_back(
        concat("nothing to train: none of the module's ", layout.frozen.size(), " parameters requires a gradient"));
  }
  check_devices(layout.trainable, faults);
  check_overlap(module, faults);
  if (!faults.empty()) throw ConfigError(std::move(faults));

  for (const bool sparse : {false, true}) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      auto buffer = plan_buffer(layout.trainable, dtype, sparse, layout.groups);
      if (!buffer.members.empty()) layout.buffers.push_back(std::move(buffer));
    }
  }
  return layout;
}

}  // namespace tandem::model
