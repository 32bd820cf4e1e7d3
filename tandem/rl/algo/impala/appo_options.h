// rl/algo/appo_options.h: the numbers of APPO beside those of IMPALA, whose pipeline it has.
#pragma once

namespace tandem::rl {

/// What mu / pi_T is cut to; see appo_loss.h.
inline constexpr double kMostCorrection = 2;

struct AppoOptions {
  double clip_range = 0.2;      // of the probability ratio
  double kl_coef = 0;           // of KL(target || policy); 0: left out
  int target_update_steps = 4;  // learner steps after which the target network takes the policy's weights
};

}  // namespace tandem::rl
