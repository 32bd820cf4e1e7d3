#include "tandem/sync/variables/variable_home.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

// A module whose only purpose is to give FlatParameters something to lay out: parameters like those of a replica, in
// the order of its flat memory, so that the flat memory here gets the same layout. Names are numbers: p0, p1, ...
class Stand final : public torch::nn::Module {
 public:
  explicit Stand(const model::FlatParameters& like) {
    for (const model::FlatBuffer& buffer : like.buffers()) {
      for (const model::ParameterSlot& slot : buffer.slots) {
        const auto options = at::TensorOptions().dtype(buffer.values.scalar_type());
        (void)register_parameter(name_of(names_++), at::zeros(slot.shape, options));
      }
    }
  }
  static std::string name_of(std::size_t number) { return concat("p", number); }

 private:
  std::size_t names_ = 0;
};

// The groups and sparse parameters of `like`, by the names that Stand gives.
model::FlatParameters::Options options_as(const model::FlatParameters& like) {
  model::FlatParameters::Options options;
  for (int group = 0; group < like.groups(); ++group) options.groups.push_back({concat("g", group), {}});
  std::size_t number = 0;
  for (const model::FlatBuffer& buffer : like.buffers()) {
    for (const model::ParameterSlot& slot : buffer.slots) {
      const std::string name = Stand::name_of(number++);
      options.groups[static_cast<std::size_t>(slot.group)].prefixes.push_back(name);
      if (buffer.sparse) options.sparse_parameters.push_back(name);
    }
  }
  return options;
}

void copy_values(const model::FlatParameters& from, const model::FlatParameters& to) {
  for (std::size_t b = 0; b < from.buffers().size(); ++b) {
    at::Tensor values = to.buffers()[b].values;
    values.copy_(from.buffers()[b].values);
  }
}

void copy_state(model::Optimizer& from, model::Optimizer& to) {
  const auto source = from.state(), target = to.state();
  for (std::size_t i = 0; i < source.size(); ++i) {
    at::Tensor tensor = target[i].second;
    tensor.copy_(source[i].second);
  }
  to.state_changed();
}

std::vector<at::Tensor> state_of(const model::FlatParameters& parameters, const model::Optimizer& optimizer) {
  std::vector<at::Tensor> state;
  for (const model::FlatBuffer& buffer : parameters.buffers()) state.push_back(buffer.values);
  for (const auto& [name, tensor] : optimizer.state()) state.push_back(tensor);
  return state;
}

}  // namespace

// The layout is checked, because gradients of replicas are added to this memory without looking at names.
VariableHome::VariableHome(Replica& like)
    : parameters_(std::make_shared<Stand>(like.parameters()), options_as(like.parameters())),
      optimizer_(parameters_, like.optimizer().rules()) {
  const auto &mine = parameters_.buffers(), &its = like.parameters().buffers();
  TANDEM_CHECK(mine.size() == its.size(), mine.size(), " buffers for ", its.size());
  for (std::size_t b = 0; b < mine.size(); ++b) {
    TANDEM_CHECK(mine[b].values.numel() == its[b].values.numel() && mine[b].sparse == its[b].sparse &&
                     mine[b].slots.size() == its[b].slots.size(),
                 "buffer ", b, " of the shared variables has another layout");
  }
}

void VariableHome::load(Replica& from) {
  const at::NoGradGuard no_grad;
  copy_values(from.parameters(), parameters_);
  copy_state(from.optimizer(), optimizer_);
}

void VariableHome::store(Replica& to) {
  const at::NoGradGuard no_grad;
  copy_values(parameters_, to.parameters());
  copy_state(optimizer_, to.optimizer());
}

// Step counts are the only whole numbers of an optimizer's state.
std::int64_t VariableHome::updates() {
  std::int64_t most = 0;
  for (const auto& [name, tensor] : optimizer_.state()) {
    if (tensor.scalar_type() != at::kLong || tensor.numel() == 0) continue;
    most = std::max(most, tensor.max().item<std::int64_t>());
  }
  return most;
}

std::vector<at::Tensor> VariableHome::state() { return state_of(parameters_, optimizer_); }

std::vector<at::Tensor> state_of(Replica& replica) { return state_of(replica.parameters(), replica.optimizer()); }

model::FlatParameters::Gradients VariableHome::make_gradients() const {
  return parameters_.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
}

}  // namespace tandem::sync
