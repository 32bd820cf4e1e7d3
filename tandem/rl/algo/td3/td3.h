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

#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/td3/td3_loss.h"
#include "tandem/rl/algo/td3/td3_policy.h"

namespace tandem::rl {

class Td3 final : public OffPolicyAgent {
 public:
  /// `policy` is the member's module, made with `networks`.
  Td3(learner::Member member, Td3Policy& policy, const NetworkOptions& networks, const Td3Options& options);

  [[nodiscard]] int noises() const override { return 1; }
  learner::LearnerReport learn(const Turn& now, std::span<OffPolicySums> sums,
                               std::span<std::vector<float>> errors) override;
  [[nodiscard]] std::unique_ptr<Actor> make_explorer(const ActorOptions& options, std::int64_t rows,
                                                     std::uint64_t run_seed, int group) override;
  [[nodiscard]] model::NamedTensors targets() const override;
  void load_targets(const model::NamedTensors& saved) override;
  [[nodiscard]] std::string gradients_by() const override;

  /// The groups of parameters and the optimizer of each, for the team that trains the policy.
  static void set_optimizers(const Td3Options& options, learner::TeamOptions& team);

 private:
  const learner::Member member_;
  Td3Policy& policy_;
  const Td3Targets copies_;
  TargetNetwork actor_target_, critics_target_;
  const Td3Options options_;
};

}  // namespace tandem::rl
