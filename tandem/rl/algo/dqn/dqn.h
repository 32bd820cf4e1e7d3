// rl/algo/dqn/dqn.h: DQN as one replica does it, and how it explores.
//
// Threads: single-thread, the replica's. Blocking: learn() waits for the other replicas in its optimizer step.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/algo/dqn/dqn_loss.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/dqn/fused_dqn.h"
#include "tandem/rl/algo/off_policy/kernel_choice.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"

namespace tandem::rl {

/// Takes the action of the most value, or with probability epsilon any one that is allowed. Noisy layers are drawn anew
/// for each step, which all rows share. It tells no log-probabilities.
class EpsilonGreedy final : public Actor {
 public:
  /// `epsilon` is read at every step. Neither is owned. `random`: the env group's stream. `kernels`: the set
  /// of the kernels that compute values, for `rows` rows a step; nothing: the module computes them.
  EpsilonGreedy(DqnPolicy& policy, const DqnOptions& options, const double& epsilon, Philox random, std::int64_t rows,
                std::optional<InstructionSet> kernels);

  void refresh() override {
    if (network_) network_->refresh();
  }
  void act(const Observation& observation, const at::Tensor& mask, const Decisions& out) override;
  void episodes_ended(std::span<const std::uint8_t> /*done*/) override {}
  /// The values of the best actions.
  void evaluate(const Observation& observation, const at::Tensor& state, float* value) override;
  /// The random stream alone: the values follow from the parameters.
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state) override { random_.load(state); }

 private:
  // Valid until the next call: [rows, actions].
  [[nodiscard]] const float* values(const Observation& observation);

  DqnPolicy& policy_;
  const double& epsilon_;
  const bool is_noisy_;
  Philox random_;
  const std::int64_t actions_;
  // At most one of the two: the kernels, and what the module told last.
  std::optional<ReturnPasses> network_;
  at::Tensor told_;
};

/// One network that learns and its slow copy. A turn is one optimizer step; every target_every turns the copy follows.
/// Epsilon follows the share of the run that is made, turn by turn.
class Dqn final : public OffPolicyAgent {
 public:
  /// `policy` is the member's module, made with `networks` and `options`. `set`: of the kernels.
  Dqn(learner::Member member, DqnPolicy& policy, const NetworkOptions& networks, const DqnOptions& options,
      InstructionSet set);

  learner::LearnerReport learn(const Turn& now, std::span<OffPolicySums> sums,
                               std::span<std::vector<float>> errors) override;
  [[nodiscard]] std::unique_ptr<Actor> make_explorer(const ActorOptions& options, std::int64_t rows,
                                                     std::uint64_t run_seed, int group) override;
  void set_progress(double share) override { epsilon_ = options_.epsilon(share); }
  [[nodiscard]] model::NamedTensors targets() const override { return target_.state(); }
  void load_targets(const model::NamedTensors& saved) override { target_.load(saved); }
  [[nodiscard]] std::string gradients_by() const override { return kernels_.sentence; }
  /// The share of actions that are drawn evenly now.
  void append_figures(std::vector<std::pair<std::string, double>>& figures) const override {
    figures.emplace_back("epsilon", epsilon_);
  }

  /// The optimizer, for the team that trains the policy.
  static void set_optimizers(const DqnOptions& options, learner::TeamOptions& team);

 private:
  const learner::Member member_;
  DqnPolicy& policy_;
  // The slow copy's module; target_ has its memory.
  const std::shared_ptr<ReturnNetwork> copy_;
  TargetNetwork target_;
  const DqnOptions options_;
  const KernelChoice kernels_;
  std::unique_ptr<FusedDqn> fused_;  // where kernels_ says so
  // Explorers read it at every step.
  double epsilon_;
};

}  // namespace tandem::rl
