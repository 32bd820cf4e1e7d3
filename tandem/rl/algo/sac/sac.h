// rl/algo/sac/sac.h: SAC as one replica does it.
//
// A turn is a step of the critics and, every policy_every turns, one of the actor and the temperature, which ask the
// critics as that step left them. Then the target networks follow.
//
// Threads: single-thread, the replica's. Blocking: learn() waits for the other replicas in each optimizer step.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/algo/off_policy/kernel_choice.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/sac/fused_sac.h"
#include "tandem/rl/algo/sac/sac_loss.h"
#include "tandem/rl/algo/sac/sac_policy.h"

namespace tandem::rl {

/// One actor with its temperature, the critics and their slow copies, on one replica.
class Sac final : public OffPolicyAgent {
 public:
  /// `policy` is the member's module, made with `networks`. `set`: of the kernels.
  Sac(learner::Member member, SacPolicy& policy, const NetworkOptions& networks, const SacOptions& options,
      InstructionSet set);

  /// One tensor for the actions of the targets, and one for those that the actor learns from.
  [[nodiscard]] int noises() const override { return 2; }
  learner::LearnerReport learn(const Turn& now, std::span<OffPolicySums> sums,
                               std::span<std::vector<float>> errors) override;
  [[nodiscard]] std::unique_ptr<Actor> make_explorer(const ActorOptions& options, std::int64_t rows,
                                                     std::uint64_t run_seed, int group) override;
  [[nodiscard]] model::NamedTensors targets() const override { return target_.state(); }
  void load_targets(const model::NamedTensors& saved) override { target_.load(saved); }
  [[nodiscard]] std::string gradients_by() const override { return kernels_.sentence; }
  /// The temperature that is in force.
  void append_figures(std::vector<std::pair<std::string, double>>& figures) const override;

  /// The groups of parameters and the optimizer of each, for the team that trains the policy.
  static void set_optimizers(const SacOptions& options, learner::TeamOptions& team);

 private:
  // The two optimizer steps of a turn. Each writes the sums of its own losses.
  learner::LearnerReport step_critics(const Turn& now, std::span<OffPolicySums> sums,
                                      std::span<std::vector<float>> errors);
  learner::LearnerReport step_policy(const Turn& now, std::span<OffPolicySums> sums);

  const learner::Member member_;
  SacPolicy& policy_;
  // The slow copies' module; target_ has its memory.
  const std::shared_ptr<ActionValues> target_critics_;
  TargetNetwork target_;
  const SacOptions options_;
  const KernelChoice kernels_;
  std::unique_ptr<FusedSac> fused_;  // where kernels_ says so
};

}  // namespace tandem::rl
