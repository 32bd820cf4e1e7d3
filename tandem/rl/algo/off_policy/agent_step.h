// rl/algo/off_policy/agent_step.h: one optimizer step of an agent, by kernels or by autograd.
//
// The learner names a loss that is not finite by the parts that both ways tell, and counts the rows.
//
// Threads: single-thread, the replica's. Blocking: waits for the other replicas.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tandem/learner/replica_team.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"

namespace tandem::rl {

/// The place of a shard of the run in the member's replica.
[[nodiscard]] inline std::size_t local_place(const learner::Member& member, int shard) {
  return static_cast<std::size_t>(shard - member.replica.placement().mine.begin);
}

/// A step from the rows that the member's learner has loaded, by autograd: loss(rows, local) gives a loss
/// (learner::ShardLoss). `local`: the shard's place in the replica. Throws as Learner::step().
template <typename Loss>
learner::LearnerReport step_by_autograd(const learner::Member& member, const OffPolicyAgent::Turn& now,
                                        const Loss& loss) {
  const auto by_autograd = [&](const learner::ShardBatch& rows) {
    return loss(transitions_of(rows.columns), local_place(member, rows.shard));
  };
  return member.learner.step(0, learner::LossFunction(std::cref(by_autograd)), now.rate, now.limits);
}

/// The same by kernels where there are some. `fused`: what computes by them, or null; then write(*fused, rows, local)
/// writes gradients (learner::WrittenLoss), and else it is step_by_autograd() with `loss`.
template <typename Fused, typename Write, typename Loss>
learner::LearnerReport step_agent(const learner::Member& member, const OffPolicyAgent::Turn& now, Fused* fused,
                                  const Write& write, const Loss& loss) {
  if (fused == nullptr) return step_by_autograd(member, now, loss);
  const auto by_kernels = [&](const learner::ShardRows& rows) {
    return write(*fused, transitions_of(rows.columns), local_place(member, rows.shard));
  };
  return member.learner.step(0, learner::GradientFunction(std::cref(by_kernels)), now.rate, now.limits);
}

/// Where the sizes of a shard's errors go; null where nobody wants them.
[[nodiscard]] inline std::vector<float>* errors_of(std::span<std::vector<float>> errors, std::size_t local) {
  return errors.empty() ? nullptr : &errors[local];
}

}  // namespace tandem::rl
