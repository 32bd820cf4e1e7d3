// rl/algo/sac/sac_loss.h: the three objectives of SAC, on rows from a replay.
//
// Haarnoja et al., "Soft Actor-Critic Algorithms and Applications" (2018), arXiv:1812.05905:
//
//   critics      J(Q_i)   = E[ 1/2 (Q_i(s, a) - y)^2 ],  equation 5, with two critics as in section 6 and
//                y        = r + discount (min_i Q'_i(s', a') - alpha log pi(a'|s')),  a' drawn from pi(s')
//   actor        J(pi)    = E[ alpha log pi(a|s) - min_i Q_i(s, a) ],  a drawn from pi(s), equation 7
//   temperature  J(alpha) = E[ -log alpha (log pi(a|s) + target entropy) ]:  equation 18 with log alpha in the place of
//                alpha, as in the authors' code
//
// Q' are the target networks; REDQ (Chen et al. 2021) takes the least of a few of them, drawn in each step, and gives
// the actor the mean of Q_i in the place of the least (SacOptions). Draws are tanh(mean + deviation * noise) with the
// noise of the rows, so that a loss is a function of its rows. Actor and temperature learn in one step, from one draw.
//
// Threads: single-thread, the replica's.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/algo/sac/sac_options.h"
#include "tandem/rl/algo/sac/sac_policy.h"

namespace tandem::rl {

/// The temperature that is in force: a scalar without gradients.
[[nodiscard]] at::Tensor temperature_of(const SacPolicy& policy, const SacOptions& options);
/// The entropy that the temperature is learned for.
[[nodiscard]] double target_entropy_of(const SacPolicy& policy, const SacOptions& options);

/// The critics' loss: the sum over critics of the weighted means over the rows. Takes noise 0. `targets`: their slow
/// copies, of which those at the places `chosen` count. Appends |Q - y|, the mean over the critics, to `errors` where
/// that is not null.
[[nodiscard]] learner::ShardLoss sac_critic_loss(SacPolicy& policy, ActionValues& targets,
                                                 std::span<const std::size_t> chosen, const TransitionRows& rows,
                                                 const SacOptions& options, OffPolicySums& sums,
                                                 std::vector<float>* errors);

/// The actor's loss and, unless it is fixed, the temperature's. Takes noise 1. Gradients reach no critic.
[[nodiscard]] learner::ShardLoss sac_policy_loss(SacPolicy& policy, const TransitionRows& rows,
                                                 const SacOptions& options, OffPolicySums& sums);

}  // namespace tandem::rl
