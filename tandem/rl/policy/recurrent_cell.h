// rl/policy/recurrent_cell.h: an LSTM or GRU layer over sequences in which episodes end.
//
// LSTM: Hochreiter, Schmidhuber, "Long Short-Term Memory" (1997), with forget gates (Gers et al. 2000); GRU: Cho et al.
// (2014), with the reset gate behind the product, as cuDNN has it. Gates lie in torch's order and under its names, so
// weights fit torch.nn.LSTMCell and torch.nn.GRUCell.
//
// Threads: as torch::nn::Module. All tensors lie on the weights' device.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>

namespace tandem::rl {

enum class CellKind { kLstm, kGru };

/// One layer that remembers.
class RecurrentCell final : public torch::nn::Module {
 public:
  /// A cell of `size` units over `inputs` features. Weights start orthogonal, biases zero.
  RecurrentCell(CellKind kind, std::int64_t inputs, std::int64_t size, at::Generator generator);

  /// Numbers of a row's output, and of the state that is kept from step to step. An LSTM's state is its output and then
  /// its memory, a GRU's is its output.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t state_size() const { return kind_ == CellKind::kLstm ? 2 * size_ : size_; }

  struct Output {
    /// [T, S, size()]: the outputs of all steps.
    at::Tensor steps;
    /// [S, state_size()]: the states after the last step.
    at::Tensor state;
  };
  /// `x` [T, S, inputs], `state` [S, state_size()] before the first step. `start` [T, S]: where it is not zero, an
  /// episode begins with the step, and nothing is remembered of before; undefined: nowhere.
  Output forward(const at::Tensor& x, const at::Tensor& state, const at::Tensor& start);

 private:
  // The state between two steps; memory is undefined for a GRU.
  struct Kept {
    at::Tensor output, memory;
  };
  // One step, from the products with the inputs that all steps share.
  [[nodiscard]] Kept step_lstm(const at::Tensor& of_input, const Kept& before) const;
  [[nodiscard]] Kept step_gru(const at::Tensor& of_input, const Kept& before) const;

  // Weights and biases are [gates, ...] as torch.nn.LSTMCell's (four gates) or torch.nn.GRUCell's (three).
  const CellKind kind_;
  const std::int64_t size_;
  at::Tensor weight_ih_, weight_hh_, bias_ih_, bias_hh_;
};

}  // namespace tandem::rl
