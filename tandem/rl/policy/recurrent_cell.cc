#include "tandem/rl/policy/recurrent_cell.h"

#include <ATen/ATen.h>

#include <vector>

#include "tandem/base/check.h"
#include "tandem/model/init.h"

namespace tandem::rl {

RecurrentCell::RecurrentCell(CellKind kind, std::int64_t inputs, std::int64_t size, at::Generator generator)
    : kind_(kind), size_(size) {
  const std::int64_t gates = (kind == CellKind::kLstm ? 4 : 3) * size;
  weight_ih_ = register_parameter("weight_ih", at::empty({gates, inputs}));
  weight_hh_ = register_parameter("weight_hh", at::empty({gates, size}));
  bias_ih_ = register_parameter("bias_ih", at::zeros({gates}));
  bias_hh_ = register_parameter("bias_hh", at::zeros({gates}));
  model::init_orthogonal(weight_ih_, 1, generator);
  model::init_orthogonal(weight_hh_, 1, generator);
}

// Step by step, since each needs the state of the one before. `begins` says on the CPU in which steps any episode
// begins, so that other steps are spared the product with `keep`; on a device this waits once for all steps.
RecurrentCell::Output RecurrentCell::forward(const at::Tensor& x, const at::Tensor& state, const at::Tensor& start) {
  const std::int64_t steps = x.size(0), rows = x.size(1);
  TANDEM_CHECK(state.dim() == 2 && state.size(0) == rows && state.size(1) == state_size(), "states ", state.sizes(),
               " for inputs ", x.sizes());
  // The products with the inputs do not depend on the state, so one product serves all steps.
  const at::Tensor of_inputs = at::linear(x.flatten(0, 1), weight_ih_, bias_ih_).view({steps, rows, -1});
  at::Tensor keep, begins;
  if (start.defined()) {
    keep = (start == 0).to(x.scalar_type()).unsqueeze(-1);
    begins = (start != 0).any(1).to(at::kCPU);
  }
  Kept kept{.output = state.narrow(1, 0, size_), .memory = {}};
  if (kind_ == CellKind::kLstm) kept.memory = state.narrow(1, size_, size_);
  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < steps; ++t) {
    if (begins.defined() && begins.const_data_ptr<bool>()[t]) {
      kept.output = kept.output * keep[t];
      if (kept.memory.defined()) kept.memory = kept.memory * keep[t];
    }
    kept = kind_ == CellKind::kLstm ? step_lstm(of_inputs[t], kept) : step_gru(of_inputs[t], kept);
    outputs.push_back(kept.output);
  }
  return {.steps = at::stack(outputs),
          .state = kept.memory.defined() ? at::cat({kept.output, kept.memory}, 1) : kept.output};
}

// The gates are input, forget, proposed value and output, in torch's order:
//   memory' = forget memory + input tanh(proposed),  output' = out tanh(memory').
RecurrentCell::Kept RecurrentCell::step_lstm(const at::Tensor& of_input, const Kept& before) const {
  const at::Tensor gates = of_input + at::linear(before.output, weight_hh_, bias_hh_);
  const at::Tensor in_and_forget = gates.narrow(1, 0, 2 * size_).sigmoid();
  const at::Tensor proposed = gates.narrow(1, 2 * size_, size_).tanh();
  const at::Tensor out = gates.narrow(1, 3 * size_, size_).sigmoid();
  const at::Tensor memory =
      at::addcmul(in_and_forget.narrow(1, size_, size_) * before.memory, in_and_forget.narrow(1, 0, size_), proposed);
  return {.output = out * memory.tanh(), .memory = memory};
}

// The gates are reset, update and proposed value, in torch's order:
//   proposed = tanh(of input + reset of output),  output' = update output + (1 - update) proposed.
RecurrentCell::Kept RecurrentCell::step_gru(const at::Tensor& of_input, const Kept& before) const {
  const at::Tensor of_output = at::linear(before.output, weight_hh_, bias_hh_);
  const at::Tensor gates = (of_input.narrow(1, 0, 2 * size_) + of_output.narrow(1, 0, 2 * size_)).sigmoid();
  const at::Tensor reset = gates.narrow(1, 0, size_), update = gates.narrow(1, size_, size_);
  const at::Tensor proposed =
      at::addcmul(of_input.narrow(1, 2 * size_, size_), reset, of_output.narrow(1, 2 * size_, size_)).tanh();
  return {.output = at::lerp(proposed, before.output, update), .memory = {}};
}

}  // namespace tandem::rl
