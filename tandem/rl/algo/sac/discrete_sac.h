// rl/algo/sac/discrete_sac.h: SAC for one choice as one replica does it.
//
// A turn is that of Sac: a step of the critics and, every policy_every turns, one of the actor and the temperature;
// then the target networks follow. Losses are computed by autograd.
//
// Threads: single-thread, the replica's. Blocking: learn() waits for the other replicas in each optimizer step.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/sac/discrete_sac_policy.h"
#include "tandem/rl/algo/sac/sac_options.h"

namespace tandem::rl {

/// One actor with its temperature, the critics and their slow copies, on one replica.
class DiscreteSac final : public OffPolicyAgent {
 public:
  /// `policy` is the member's module, made with `networks`. There are no kernels for `set` to choose among.
  DiscreteSac(learner::Member member, DiscreteSacPolicy& policy, const NetworkOptions& networks,
              const SacOptions& options, InstructionSet set);

  /// Appends |Q - y| to `errors`, the mean over the critics.
  learner::LearnerReport learn(const Turn& now, std::span<OffPolicySums> sums,
                               std::span<std::vector<float>> errors) override;
  /// Draws from the policy.
  [[nodiscard]] std::unique_ptr<Actor> make_explorer(const ActorOptions& options, std::int64_t rows,
                                                     std::uint64_t run_seed, int group) override;
  [[nodiscard]] model::NamedTensors targets() const override { return target_.state(); }
  void load_targets(const model::NamedTensors& saved) override { target_.load(saved); }
  /// That there are no kernels.
  [[nodiscard]] std::string gradients_by() const override;
  /// The temperature that is in force.
  void append_figures(std::vector<std::pair<std::string, double>>& figures) const override;

  /// As Sac's: the parameters have the same names.
  static void set_optimizers(const SacOptions& options, learner::TeamOptions& team);

 private:
  const learner::Member member_;
  DiscreteSacPolicy& policy_;
  // The slow copies' module; target_ has its memory.
  const std::shared_ptr<ChoiceValues> target_critics_;
  TargetNetwork target_;
  const SacOptions options_;
};

}  // namespace tandem::rl
