// rl/algo/impala/impala_loss.h: the actor-critic loss with V-trace targets.
//
// Threads: any, each with its own policy. The policy must be on the batch's device.
//
// Source: Espeholt et al. (2018), section 4.2. With v_s and A_s of vtrace.h, constants here, and means over T * N
// steps:
//     policy = -mean(A_s log pi(a_s|x_s))
//     value  = mean((v_s - V(x_s))^2)
//     loss   = policy + value_coef * value - entropy_coef * mean(entropy)
#pragma once
#include <cstdint>

#include "tandem/learner/loss.h"
#include "tandem/learner/replayed_loss.h"
#include "tandem/rl/algo/impala/impala_options.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Means over the steps of one batch.
/// A shard without rows has zeros; its means do not count when shards are combined (step_news.h).
struct ImpalaNumbers {
  std::int64_t rows = 0;  // the number of steps that the means are over
  double policy_loss = 0, value_loss = 0, entropy = 0;
  // The divergence of the policy that acted from the one that learns: mean(r - 1 - log r).
  double approx_kl = 0;
  // The share of the ratios above rho_clip.
  double cut = 0;
  // 1 - Var[v - V] / Var[v]; NaN when targets are all equal.
  double explained_variance = 0;
};

/// The loss of one trajectory's batch. Writes its numbers to `numbers`.
/// The weight of the result is the number of steps, so that shards of different sizes give the mean over all steps.
/// Waits for the policy's device.
[[nodiscard]] learner::ShardLoss impala_loss(ActorCritic& policy, const learner::ShardBatch& batch,
                                             const ImpalaOptions& options, ImpalaNumbers& numbers);
/// Computes the loss as impala_loss() does, and leaves the numbers on the device for a learner::ReplayedLoss;
/// numbers_of() of trajectory_output.h reads them. Batches of decisions on a CUDA device are not supported, since
/// V-trace of decisions runs on the host.
[[nodiscard]] learner::DeviceLoss impala_loss_on_device(ActorCritic& policy, const learner::ShardBatch& batch,
                                                        const ImpalaOptions& options);

}  // namespace tandem::rl
