// rl/algo/dqn/fused_dqn.h: DQN's loss and gradients by kernels, without autograd. dqn_loss.h is the definition, and
// results agree with it to rounding.
//
// It serves policies without a torso whose one network learns the mean of returns, with float32 parameters on the CPU.
//
// Threads: single-thread, the replica's. Working memory is taken when it is made.
#pragma once
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/dqn/dqn_options.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/off_policy/feature_rows.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"

namespace tandem::rl {

/// Why there are no kernels for such networks, in a clause; empty where there are.
[[nodiscard]] std::string why_not_fused(const DqnOptions& options);

class FusedDqn {
 public:
  /// For up to `rows` rows a call. `network` and `target` are not owned. Throws ConfigError when this processor does
  /// not have `set`.
  FusedDqn(ReturnNetwork& network, ReturnNetwork& target, std::int64_t rows, const DqnOptions& options,
           InstructionSet set);

  /// As dqn_loss(). Gradients are written where the parameters' .grad lies.
  learner::WrittenLoss loss(const TransitionRows& rows, OffPolicySums& sums, std::vector<float>* errors);

 private:
  // Fills next_: what the target network says of the action that is chosen in each next step.
  void value_next(const TransitionRows& rows);

  const DqnOptions options_;
  FeatureRows features_, next_features_;
  MlpEnsemble<float> network_, target_;
  const std::int64_t actions_;
  // [rows]: the values of the next steps' best actions; [rows, actions].
  std::vector<float> next_, of_values_;
  std::vector<std::int64_t> best_;
};

}  // namespace tandem::rl
