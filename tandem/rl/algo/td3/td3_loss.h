// rl/algo/td3/td3_loss.h: the two objectives of TD3, on rows from a replay.
//
// Fujimoto, van Hoof, Meger, "Addressing Function Approximation Error in Actor-Critic Methods" (2018), algorithm 1:
//
//   critics   sum over i of E[ (Q_i(s, a) - y)^2 ],  y = r + discount min_i Q'_i(s', a'),
//             a' = clip(pi'(s') + clip(target_noise * noise, -c, c), -1, 1)
//   actor     E[ -Q_1(s, pi(s)) ]
//
// Q' and pi' are the target networks. The noise is that of the rows, so that a loss is a function of its rows.
//
// Threads: single-thread, the replica's.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/algo/td3/td3_options.h"
#include "tandem/rl/algo/td3/td3_policy.h"

namespace tandem::rl {

/// The slow copies that targets are computed with.
struct Td3Targets {
  std::shared_ptr<ObservationNetwork> actor;
  std::shared_ptr<ActionValues> critics;
};

/// The critics' loss, the weighted mean over the rows. Takes noise 0. Of the slow critics those at the places `chosen`
/// count. Appends |Q - y|, the mean over the critics, to
/// `errors` where that is not null.
[[nodiscard]] learner::ShardLoss td3_critic_loss(Td3Policy& policy, const Td3Targets& targets,
                                                 std::span<const std::size_t> chosen, const TransitionRows& rows,
                                                 const Td3Options& options, OffPolicySums& sums,
                                                 std::vector<float>* errors);

/// The actor's loss. Gradients reach no critic.
[[nodiscard]] learner::ShardLoss td3_policy_loss(Td3Policy& policy, const TransitionRows& rows, OffPolicySums& sums);

}  // namespace tandem::rl
