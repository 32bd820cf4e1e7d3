// rl/algo/sac/fused_sac.h: SAC's losses and gradients by kernels, without autograd. sac_loss.h is the definition, and
// results agree with it to rounding.
//
// It serves policies without a torso whose parameters are float32 on the CPU.
//
// Threads: single-thread, the replica's. Working memory is taken when it is made.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/off_policy/feature_rows.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/algo/off_policy/written_gradients.h"
#include "tandem/rl/algo/sac/sac_options.h"
#include "tandem/rl/algo/sac/sac_policy.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"
#include "tandem/rl/policy/kernels/squashed_normal_gradient.h"

namespace tandem::rl {

class FusedSac {
 public:
  /// For up to `rows` rows a call. `policy` and `targets` are not owned. Throws ConfigError when this processor does
  /// not have `set`.
  FusedSac(SacPolicy& policy, ActionValues& targets, std::int64_t rows, const SacOptions& options, InstructionSet set);

  /// As sac_critic_loss() and sac_policy_loss(). Gradients are written where the parameters' .grad lies; parameters
  /// that a loss does not concern have none then.
  learner::WrittenLoss critic_loss(const TransitionRows& rows, std::span<const std::size_t> chosen, OffPolicySums& sums,
                                   std::vector<float>* errors);
  learner::WrittenLoss policy_loss(const TransitionRows& rows, OffPolicySums& sums);

 private:
  // Fills of_values_ with the actor's derivatives with respect to what the critics say of its actions.
  [[nodiscard]] double value_of_action(const float* values, std::int64_t critics, std::int64_t count);

  // The module whose parameters and .grad the kernels read and write.
  SacPolicy& policy_;
  const SacOptions options_;
  const double target_entropy_;
  FeatureRows features_, next_features_;
  MlpEnsemble<float> actor_, critics_, targets_;
  SquashedNormalGradient<float> draw_;
  const Untouched of_actor_, of_critics_;
  // [rows], and [critics, rows].
  std::vector<float> target_, of_log_prob_, of_values_;
};

}  // namespace tandem::rl
