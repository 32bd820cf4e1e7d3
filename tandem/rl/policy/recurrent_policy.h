// rl/policy/recurrent_policy.h: the actor-critic with an LSTM or GRU layer behind its hidden layers.
//
// The policy takes any observation, as MlpPolicy does. A row's state is that of the actor's cell, then of the critic's;
// or that of the one shared cell.
//
// Threads: as ActorCritic.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

enum class CellKind { kLstm, kGru };

/// An LSTM or GRU layer over sequences in which episodes end.
///
/// LSTM: Hochreiter, Schmidhuber, "Long Short-Term Memory" (1997), with forget gates (Gers et al. 2000); GRU: Cho et
/// al. (2014), with the reset gate behind the product, as cuDNN has it. Gates lie in torch's order and under its names,
/// so weights fit torch.nn.LSTMCell and torch.nn.GRUCell. All tensors lie on the weights' device.
class RecurrentCell final : public torch::nn::Module {
 public:
  /// A cell of `size` units over `inputs` features. Weights start orthogonal, biases zero.
  RecurrentCell(CellKind kind, std::int64_t inputs, std::int64_t size, at::Generator generator);

  /// Numbers of a row's output, and of the state that is kept from step to step. An LSTM's state is its output and then
  /// its memory, a GRU's is its output.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t state_size() const { return kind_ == CellKind::kLstm ? 2 * size_ : size_; }
  [[nodiscard]] CellKind kind() const { return kind_; }
  /// Four for an LSTM, three for a GRU.
  [[nodiscard]] std::int64_t gates() const { return kind_ == CellKind::kLstm ? 4 : 3; }
  /// The parameters, for code that computes forward() by itself.
  [[nodiscard]] const at::Tensor& weight_ih() const { return weight_ih_; }
  [[nodiscard]] const at::Tensor& weight_hh() const { return weight_hh_; }
  [[nodiscard]] const at::Tensor& bias_ih() const { return bias_ih_; }
  [[nodiscard]] const at::Tensor& bias_hh() const { return bias_hh_; }

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

/// The options of an MlpPolicy and of the layer that remembers.
struct RecurrentPolicyOptions {
  /// mlp.trunks says whether actor and critic have layers, and so memories, of their own.
  MlpPolicyOptions mlp = {};
  CellKind cell = CellKind::kLstm;
  /// Units of a cell.
  std::int64_t size = 64;
};

/// Hidden layers and the cell behind them, of the actor, of the critic or of both.
class RecurrentBranch final : public torch::nn::Module {
 public:
  RecurrentBranch(std::int64_t inputs, const RecurrentPolicyOptions& options, at::Generator generator);

  const std::shared_ptr<Mlp> mlp;
  const std::shared_ptr<RecurrentCell> cell;
};

/// Parameters: with a torso "torso.0.conv_0.weight", ... (encoder.h); "actor.mlp.0.weight", ... and
/// "actor.cell.weight_ih", ..., the same of "critic" (with shared trunks "trunk" in the place of both),
/// "action_head.0.weight", ..., "value_head.0.weight", ..., and "log_std" as MlpPolicy.
class RecurrentPolicy final : public RecurrentActorCritic {
 public:
  /// Throws ConfigError when an option is out of range or does not fit the spec.
  RecurrentPolicy(const Spec& spec, const RecurrentPolicyOptions& options, at::Generator generator);

  /// The numbers of all branches' cells together.
  [[nodiscard]] std::int64_t state_size() const override;
  SequenceOutput forward_sequences(const SequenceInput& input) override;
  /// Throws ConfigError: TorchScript's policy() has no place for a state.
  [[nodiscard]] PolicyScript script() const override;
  /// The actor's branch alone: what the critic remembers decides no action.
  [[nodiscard]] ActingNet acting_net() const override;

  // Its parts, for code that computes forward_sequences() by itself.

  [[nodiscard]] bool has_torso() const { return encoder_->has_torso(); }
  [[nodiscard]] const Encoder& encoder() const { return *encoder_; }
  /// The inputs of the first layers, where the policy has no torso.
  [[nodiscard]] const FlatFeatures& features() const { return encoder_->flat(); }
  /// The actor's and the critic's, or one for both. A row's state has their cells' in this order.
  [[nodiscard]] const std::vector<std::shared_ptr<RecurrentBranch>>& branches() const { return branches_; }
  [[nodiscard]] const Mlp& action_head() const { return *action_head_; }
  [[nodiscard]] const Mlp& value_head() const { return *value_head_; }
  /// Undefined for discrete actions.
  [[nodiscard]] const at::Tensor& log_std() const { return log_std_; }

 private:
  const std::shared_ptr<Encoder> encoder_;
  // The actor's and the critic's branch, or one for both.
  std::vector<std::shared_ptr<RecurrentBranch>> branches_;
  // Linear layers from the outputs of the cells to action parameters and value.
  std::shared_ptr<Mlp> action_head_, value_head_;
  // Undefined for discrete actions.
  at::Tensor log_std_;
};

/// Makes RecurrentPolicies of these options.
[[nodiscard]] PolicyFactory recurrent_policy_factory(RecurrentPolicyOptions options);

}  // namespace tandem::rl
