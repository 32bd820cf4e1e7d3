// rl/algo/sac/discrete_sac_loss.h: the three objectives of SAC for one choice, on rows from a replay.
//
// Christodoulou, "Soft Actor-Critic for Discrete Action Settings" (2019), arXiv:1910.07207: where there are few
// choices, each expectation over them is a sum.
//
//   critics      J(Q_i)   = E[ 1/2 (Q_i(s, a) - y)^2 ],  y = r + discount V(s'),  equation 10 with two critics:
//                V(s')    = sum_a pi(a|s') (min_i Q'_i(s', a) - alpha log pi(a|s'))
//   actor        J(pi)    = E[ sum_a pi(a|s) (alpha log pi(a|s) - min_i Q_i(s, a)) ],  equation 12
//   temperature  J(alpha) = E[ log alpha (entropy of pi(s) - target entropy) ]:  equation 11 with log alpha in the
//   place
//                of alpha, as in sac_loss.h
//
// Q' are the target networks. Choices that a mask forbids have no part in a sum. Nothing is drawn, so the losses take
// no noise. Actor and temperature learn in one step.
//
// Threads: single-thread, the replica's.
#pragma once
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/algo/sac/discrete_sac_policy.h"
#include "tandem/rl/algo/sac/sac_options.h"

namespace tandem::rl {

/// The temperature that is in force: a scalar without gradients.
[[nodiscard]] at::Tensor temperature_of(const DiscreteSacPolicy& policy, const SacOptions& options);
/// The entropy that the temperature is learned for: where nothing is said, 0.89 of that of even choices, as CleanRL's
/// sac_atari.py has it.
[[nodiscard]] double target_entropy_of(const DiscreteSacPolicy& policy, const at::Tensor& mask,
                                       const SacOptions& options);

/// The critics' loss: the sum over critics of the weighted means over the rows. `targets`: their slow copies. Appends
/// |Q - y|, the mean over the critics, to `errors` where that is not null.
[[nodiscard]] learner::ShardLoss sac_critic_loss(DiscreteSacPolicy& policy, ChoiceValues& targets,
                                                 const TransitionRows& rows, const SacOptions& options,
                                                 OffPolicySums& sums, std::vector<float>* errors);

/// The actor's loss and, unless it is fixed, the temperature's. Gradients reach no critic.
[[nodiscard]] learner::ShardLoss sac_policy_loss(DiscreteSacPolicy& policy, const TransitionRows& rows,
                                                 const SacOptions& options, OffPolicySums& sums);

}  // namespace tandem::rl
