// rl/algo/td3/fused_td3.h: TD3's losses and gradients by kernels, without autograd. td3_loss.h is the definition, and
// results agree with it to rounding.
//
// It serves policies without a torso whose parameters are float32 on the CPU.
//
// Threads: single-thread, the replica's. Working memory is taken when it is made.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/off_policy/feature_rows.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/algo/off_policy/written_gradients.h"
#include "tandem/rl/algo/td3/td3_loss.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"

namespace tandem::rl {

class FusedTd3 {
 public:
  /// For up to `rows` rows a call. `policy` is not owned. Throws ConfigError when this processor does not have `set`.
  FusedTd3(Td3Policy& policy, const Td3Targets& targets, std::int64_t rows, const Td3Options& options,
           InstructionSet set);

  /// As td3_critic_loss() and td3_policy_loss(). Gradients are written where the parameters' .grad lies; parameters
  /// that a loss does not concern have none then.
  learner::WrittenLoss critic_loss(const TransitionRows& rows, std::span<const std::size_t> chosen, OffPolicySums& sums,
                                   std::vector<float>* errors);
  learner::WrittenLoss policy_loss(const TransitionRows& rows, OffPolicySums& sums);

 private:
  const Td3Options options_;
  // Numbers of an action; networks among the critics.
  const std::int64_t size_, critic_count_;
  FeatureRows features_, next_features_;
  MlpEnsemble<float> actor_, critics_, target_actor_, target_critics_;
  const Untouched of_actor_, of_critics_;
  // [rows, size]; [rows]; [critics, rows].
  std::vector<float> action_, target_, of_values_;
};

}  // namespace tandem::rl
