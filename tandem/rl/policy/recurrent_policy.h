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
#include "tandem/rl/policy/recurrent.h"
#include "tandem/rl/policy/recurrent_cell.h"

namespace tandem::rl {

/// The options of an MlpPolicy and of the layer that remembers.
struct RecurrentPolicyOptions {
  /// mlp.trunks says whether actor and critic have layers, and so memories, of their own.
  MlpPolicyOptions mlp = {};
  CellKind cell = CellKind::kLstm;
  /// Units of a cell.
  std::int64_t size = 64;
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

 private:
  // Hidden layers and the cell behind them.
  struct Branch final : torch::nn::Module {
    Branch(std::int64_t inputs, const RecurrentPolicyOptions& options, at::Generator generator);
    std::shared_ptr<Mlp> mlp;
    std::shared_ptr<RecurrentCell> cell;
  };

  const std::shared_ptr<Encoder> encoder_;
  // The actor's and the critic's branch, or one for both.
  std::vector<std::shared_ptr<Branch>> branches_;
  // Linear layers from the outputs of the cells to action parameters and value.
  std::shared_ptr<Mlp> action_head_, value_head_;
  // Undefined for discrete actions.
  at::Tensor log_std_;
};

/// Makes RecurrentPolicies of these options.
[[nodiscard]] PolicyFactory recurrent_policy_factory(RecurrentPolicyOptions options);

}  // namespace tandem::rl
