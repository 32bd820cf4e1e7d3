// rl/algo/impala/appo_loss.h: the clipped surrogate on V-trace, for batches that an older policy made.
//
// APPO, as RLlib has it (after Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7, and
// Espeholt et al. 2018, section 4.1; the target network after Luo et al. 2020, "IMPACT"). mu acted, pi learns, and pi_T
// is a copy of pi that is renewed from time to time. The step from mu to pi_T is corrected by V-trace, and pi is kept
// near pi_T by the clip:
//     v_s, A_s = V-trace of vtrace.h with the ratio pi_T / mu and the values of pi, constants here
//     r        = min(2, mu / pi_T) pi / mu
//     policy   = -mean(min(r A, clip(r, 1 - c, 1 + c) A))
//     value    = mean((v_s - V(x_s))^2)
//     loss     = policy + value_coef * value - entropy_coef * mean(entropy) + kl_coef * mean(KL(pi_T || pi))
// Means over T * N steps. A_s holds min(rho_clip, pi_T / mu), so no second correction is due. The minimum keeps r apart
// from 0 / 0 where mu took what pi_T would not.
#pragma once
#include "tandem/learner/loss.h"
#include "tandem/rl/algo/impala/impala_loss.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// The loss of one trajectory's batch. `target` is pi_T. Writes to `numbers`; there `cut` is the share of the ratios r
/// outside the clip, and approx_kl that of pi_T from pi at the actions that mu took.
/// Gradients flow to `policy` alone. Both networks must be on the batch's device. Waits for that device.
[[nodiscard]] learner::ShardLoss appo_loss(ActorCritic& policy, ActorCritic& target, const learner::ShardBatch& batch,
                                           const ImpalaOptions& options, const AppoOptions& appo,
                                           ImpalaNumbers& numbers);
/// As impala_loss_on_device().
[[nodiscard]] learner::DeviceLoss appo_loss_on_device(ActorCritic& policy, ActorCritic& target,
                                                      const learner::ShardBatch& batch, const ImpalaOptions& options,
                                                      const AppoOptions& appo);

}  // namespace tandem::rl
