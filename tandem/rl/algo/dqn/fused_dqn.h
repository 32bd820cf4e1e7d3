// rl/algo/dqn/fused_dqn.h: DQN's loss and gradients by kernels, without autograd. dqn_loss.h is the definition, and
// results agree with it to rounding.
//
// It serves policies with float32 parameters on the CPU.
//
// Threads: single-thread, the replica's. Working memory is taken when it is made.
#pragma once
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/dqn/dqn_loss.h"
#include "tandem/rl/algo/dqn/dqn_options.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/dqn/return_fits.h"
#include "tandem/rl/algo/dqn/return_passes.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"

namespace tandem::rl {

class FusedDqn {
 public:
  /// For up to `rows` rows a call. `network` and `target` are not owned. Throws ConfigError when this processor does
  /// not have `set`.
  FusedDqn(ReturnNetwork& network, ReturnNetwork& target, std::int64_t rows, const DqnOptions& options,
           InstructionSet set);

  /// The noise of the losses that follow, of noisy layers with their parameters as they are now.
  void draw(const DqnNoise& noise);
  /// As dqn_loss(). Gradients are written where the parameters' .grad lies.
  learner::WrittenLoss loss(const TransitionRows& rows, OffPolicySums& sums, std::vector<float>* errors);

 private:
  // Fills next_: what the target network tells of the action that is chosen in each next step.
  void value_next(const TransitionRows& rows);

  const DqnOptions options_;
  const std::int64_t numbers_;
  ReturnPasses network_, target_;
  const std::int64_t actions_;
  ReturnFit fit_;
  // [rows, numbers] each: of the next steps' best actions, and of those that were taken; [rows, actions, numbers].
  std::vector<float> next_, said_, of_returns_;
  std::vector<std::int64_t> best_;
};

}  // namespace tandem::rl
