// rl/algo/ppo_kernel.h: the PPO loss of policies with categorical or normal actions, and its gradients, in one pass
// over the rows.
//
// ppo_loss() in tensor operations is the definition; this gives the same numbers to rounding. It saves the dozens of
// small tensor operations that a minibatch of a small policy mostly consists of.
//
// Threads: any. Ownership: nothing is kept.
#pragma once
#include <ATen/core/Tensor.h>

#include "tandem/rl/algo/ppo_columns.h"
#include "tandem/rl/algo/ppo_loss.h"

namespace tandem::rl {

/// Whether ppo_kernel_loss() can stand for ppo_loss(): an MlpPolicy, whose distributions are known, with categorical or
/// normal actions (log_std not a function of the state), without masks, float32 or float64 on the CPU.
[[nodiscard]] bool has_ppo_kernel(const ActorCritic& policy, const PolicyOutput& output, const PpoRows& rows);

/// The scalar loss of the rows, differentiable with respect to the action parameters and the value. Adds the sums of
/// the rows.
[[nodiscard]] at::Tensor ppo_kernel_loss(ActionFamily family, const PolicyOutput& output, const PpoRows& rows,
                                         const PpoOptions& options, const PpoMinibatch& minibatch, PpoSums& sums);

}  // namespace tandem::rl
