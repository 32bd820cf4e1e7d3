// rl/algo/td3/td3.h: TD3 as one replica does it.
//
// A turn is a step of the critics and, every policy_every turns, one of the actor, which asks the critics as that step
// left them; then the target networks follow.
//
// Threads: single-thread, the replica's. Blocking: learn() waits for the other replicas in each optimizer step.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/rl/algo/off_policy/kernel_choice.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/td3/fused_td3.h"
#include "tandem/rl/algo/td3/td3_loss.h"
#include "tandem/rl/algo/td3/td3_policy.h"

namespace tandem::rl {

/// One actor, the critics, and slow copies of all of them, on one replica.
class Td3 final : public OffPolicyAgent {
 public:
  /// `policy` is the member's module, made with `networks`. `set`: of the kernels.
  Td3(learner::Member member, Td3Policy& policy, const NetworkOptions& networks, const Td3Options& options,
      InstructionSet set);

  /// For the actions of the targets. What explores draws its own, in the env group's stream.
  [[nodiscard]] int noises() const override { return 1; }
  learner::LearnerReport learn(const Turn& now, std::span<OffPolicySums> sums,
                               std::span<std::vector<float>> errors) override;
  [[nodiscard]] std::unique_ptr<Actor> make_explorer(const ActorOptions& options, std::int64_t rows,
                                                     std::uint64_t run_seed, int group) override;
  /// The slow copies of the actor and of the critics, under the names of the networks that they follow.
  [[nodiscard]] model::NamedTensors targets() const override;
  /// Throws CheckpointError naming what is missing or of another shape.
  void load_targets(const model::NamedTensors& saved) override;
  [[nodiscard]] std::string gradients_by() const override { return kernels_.sentence; }

  /// The groups of parameters and the optimizer of each, for the team that trains the policy.
  static void set_optimizers(const Td3Options& options, learner::TeamOptions& team);

 private:
  const learner::Member member_;
  Td3Policy& policy_;
  // The slow copies' modules; the two targets have their memory.
  const Td3Targets copies_;
  TargetNetwork actor_target_, critics_target_;
  const Td3Options options_;
  const KernelChoice kernels_;
  std::unique_ptr<FusedTd3> fused_;  // where kernels_ says so
};

}  // namespace tandem::rl
