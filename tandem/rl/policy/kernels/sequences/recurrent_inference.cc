#include "tandem/rl/policy/kernels/sequences/recurrent_inference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

PackedLayer layer_for(const torch::nn::Linear& linear) { return {linear->weight.size(1), linear->weight.size(0)}; }

void pack_linear(const torch::nn::Linear& linear, PackedLayer& layer) {
  pack_groups(linear->weight, linear->bias, 1, layer);
}

// Copies the first `size` numbers of each row.
void copy_row_heads(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t size, float* to,
                    std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_stride, size, to + r * to_stride);
}

}  // namespace

// On the CPU nothing is copied before packing.
void pack_groups(const at::Tensor& weight_of, const at::Tensor& bias_of, std::int64_t groups, PackedLayer& layer) {
  const at::Tensor weight = weight_of.cpu().contiguous(), bias = bias_of.cpu().contiguous();
  const std::int64_t size = weight.size(0) / groups;
  for (std::int64_t group = 0; group < groups; ++group) {
    layer.pack(weight.const_data_ptr<float>() + group * size * layer.inputs,
               bias.const_data_ptr<float>() + group * size, group * padded(size), size);
  }
}

RecurrentInference::RecurrentInference(const RecurrentPolicy& policy, std::int64_t max_rows, InstructionSet set)
    : policy_(policy),
      max_rows_(max_rows),
      kernels_(mlp_kernels(set)),
      cells_(cell_kernels<float>(set)),
      head_(layer_for(policy.action_head().layers().back())),
      value_(layer_for(policy.value_head().layers().back())) {
  TANDEM_CHECK(!policy.has_torso(), "these loops have no convolutions");
  for (const at::Tensor& parameter : policy.parameters())
    TANDEM_CHECK(parameter.scalar_type() == at::kFloat, "a parameter is ", parameter.scalar_type());
  std::int64_t widest = 0, units = 0, gates = 0;
  for (const auto& module : policy.branches()) {
    const Branch& branch = branches_.emplace_back(make_branch(*module));
    for (const PackedLayer& layer : branch.hidden) widest = std::max(widest, padded(layer.outputs));
    units = std::max(units, branch.units);
    gates = std::max(gates, branch.of_input.outputs);
  }
  for (AlignedFloats& each : hidden_) each = AlignedFloats(max_rows * widest);
  of_input_ = AlignedFloats(max_rows * gates);
  of_output_ = AlignedFloats(max_rows * gates);
  tanh_memory_ = AlignedFloats(max_rows * units);
  keep_ = AlignedFloats(max_rows);
  std::fill_n(keep_.data(), max_rows, 1.0F);
  result_ = AlignedFloats(max_rows * padded(head_.outputs));
  refresh();
}

// The gates of a cell are padded one by one, so that each begins at a panel.
RecurrentInference::Branch RecurrentInference::make_branch(const RecurrentBranch& module) const {
  const RecurrentCell& cell = *module.cell;
  const std::int64_t units = padded(cell.size()), gates = cell.gates() * units;
  Branch branch{.module = module,
                .hidden = {},
                .of_input = PackedLayer(cell.weight_ih().size(1), gates),
                .of_output = PackedLayer(cell.size(), gates),
                .units = units,
                .output = AlignedFloats(max_rows_ * units),
                .memory = AlignedFloats(cell.kind() == CellKind::kLstm ? max_rows_ * units : 0)};
  for (const torch::nn::Linear& linear : module.mlp->layers()) branch.hidden.push_back(layer_for(linear));
  return branch;
}

// As MlpInference::refresh().
void RecurrentInference::refresh() {
  const at::NoGradGuard no_grad;
  for (Branch& branch : branches_) {
    const RecurrentCell& cell = *branch.module.cell;
    for (std::size_t i = 0; i < branch.hidden.size(); ++i)
      pack_linear(branch.module.mlp->layers()[i], branch.hidden[i]);
    pack_groups(cell.weight_ih(), cell.bias_ih(), cell.gates(), branch.of_input);
    pack_groups(cell.weight_hh(), cell.bias_hh(), cell.gates(), branch.of_output);
  }
  pack_linear(policy_.action_head().layers().back(), head_);
  pack_linear(policy_.value_head().layers().back(), value_);
}

// The hidden layers, and the cell's products with their result and with its own output.
void RecurrentInference::multiply(Branch& branch, const float* features, std::int64_t rows) {
  const float* x = features;
  std::int64_t stride = policy_.features().size();
  for (std::size_t i = 0; i < branch.hidden.size(); ++i) {
    float* const y = hidden_[i % 2].data();
    kernels_.dense(x, stride, rows, branch.hidden[i], y);
    stride = padded(branch.hidden[i].outputs);
    kernels_.activate(branch.module.mlp->options().activation, y, y, rows * stride);
    x = y;
  }
  kernels_.dense(x, stride, rows, branch.of_input, of_input_.data());
  kernels_.dense(branch.output.data(), branch.units, rows, branch.of_output, of_output_.data());
}

// States of rows lie without padding where they are kept, and with padding here.
void RecurrentInference::step(Branch& branch, const float* features, std::int64_t rows, const States& states) {
  const RecurrentCell& cell = *branch.module.cell;
  const std::int64_t size = cell.size(), units = branch.units, state_size = policy_.state_size();
  const bool is_lstm = cell.kind() == CellKind::kLstm;
  copy_row_heads(states.before, state_size, rows, size, branch.output.data(), units);
  if (is_lstm) copy_row_heads(states.before + size, state_size, rows, size, branch.memory.data(), units);
  multiply(branch, features, rows);
  const CellStep<float> step{.rows = rows,
                             .size = units,
                             .gates_stride = branch.of_input.outputs,
                             .stride = units,
                             .of_input = of_input_.data(),
                             .of_output = of_output_.data(),
                             .output_before = branch.output.data(),
                             .memory_before = branch.memory.data(),
                             .output = branch.output.data(),
                             .tanh_memory = tanh_memory_.data(),
                             .next_output = branch.output.data(),
                             .next_memory = branch.memory.data(),
                             .keep = keep_.data()};
  (is_lstm ? cells_.lstm : cells_.gru)(step);
  if (states.after == nullptr) return;
  copy_row_heads(branch.output.data(), units, rows, size, states.after, state_size);
  if (is_lstm) copy_row_heads(branch.memory.data(), units, rows, size, states.after + size, state_size);
}

// Branches that nobody asks for are left out: an evaluation of values needs the critic's alone.
void RecurrentInference::run(const float* features, std::int64_t rows, const States& states,
                             const MlpInference::Outputs& outputs) {
  TANDEM_CHECK(rows <= max_rows_, rows, " rows, made for ", max_rows_);
  const bool acts = outputs.head != nullptr || outputs.latent != nullptr;
  States at = states;
  for (Branch& branch : branches_) {
    const bool is_actor = &branch == &branches_.front(), is_critic = &branch == &branches_.back();
    if (at.after != nullptr || (is_actor && acts) || (is_critic && outputs.value != nullptr))
      step(branch, features, rows, at);
    at.before += branch.module.cell->state_size();
    if (at.after != nullptr) at.after += branch.module.cell->state_size();
  }
  const Branch &actor = branches_.front(), &critic = branches_.back();
  if (outputs.latent != nullptr)
    copy_row_heads(actor.output.data(), actor.units, rows, latent_size(), outputs.latent, latent_size());
  if (outputs.head != nullptr) {
    kernels_.dense(actor.output.data(), actor.units, rows, head_, result_.data());
    copy_row_heads(result_.data(), padded(head_size()), rows, head_size(), outputs.head, head_size());
  }
  if (outputs.value != nullptr) {
    kernels_.dense(critic.output.data(), critic.units, rows, value_, result_.data());
    copy_row_heads(result_.data(), padded(1), rows, 1, outputs.value, 1);
  }
}

}  // namespace tandem::rl
