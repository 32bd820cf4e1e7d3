// rl/algo/dqn/dqn_loss.h: the objective of DQN, on rows from a replay, for each form in which returns are learned.
//
//   the mean        E[ huber(Q(s, a) - y) ],  y = r + discount Q'(s', a*)  (Mnih et al. 2015; the error counts in full
//                   up to 1, and linearly beyond)
//   a distribution  the cross entropy of Z(s, a) with r + discount Z'(s', a*), projected to the fixed values
//                   (Bellemare, Dabney, Munos 2017, algorithm 1)
//   quantiles       the quantile Huber loss with threshold 1 (Dabney et al. 2018, equation 10)
//
// a* is the best action by its mean return, in the eyes of the target network or, in double DQN, of the one that
// learns.
//
// Threads: single-thread, the replica's.
#pragma once
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/dqn/dqn_options.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"

namespace tandem::rl {

/// The noise of a step: of the network that learns, which judges next actions with it, too, and of the target network.
struct DqnNoise {
  ReturnNoise own, target;
};
/// Draws the noise of a step with that seed, which is the same for all shards.
[[nodiscard]] DqnNoise draw_noise(const ReturnNetwork& network, std::uint64_t seed);

/// The weighted mean over the rows. `target`: the slow copy. `noise`: of noisy layers, or null. Appends the size of
/// each row's error to `errors` where that is not null: |Q - y| of means, and the loss of others.
[[nodiscard]] learner::ShardLoss dqn_loss(DqnPolicy& policy, ReturnNetwork& target, const TransitionRows& rows,
                                          const DqnOptions& options, OffPolicySums& sums, std::vector<float>* errors,
                                          const DqnNoise* noise = nullptr);

/// Probabilities [B, atoms] of values `support` that were moved to reward + discount * support and shared out between
/// the neighbours among the fixed values. `reward` and `discount`: [B].
[[nodiscard]] at::Tensor project(const at::Tensor& probabilities, const at::Tensor& support, const at::Tensor& reward,
                                 const at::Tensor& discount);

/// [B]: the loss of quantiles [B, N] that are to fit samples [B, M]: the mean over samples, summed over quantiles.
[[nodiscard]] at::Tensor quantile_huber(const at::Tensor& quantiles, const at::Tensor& samples);

}  // namespace tandem::rl
