// rl/algo/dqn/dqn.h: DQN as one replica does it, and how it explores.
//
// Threads: single-thread, the replica's. Blocking: learn() waits for the other replicas in its optimizer step.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/algo/dqn/dqn_loss.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"

namespace tandem::rl {

/// Takes the action of the most value, or with probability epsilon any one that is allowed. It tells no
/// log-probabilities.
class EpsilonGreedy final : public Actor {
 public:
  /// `epsilon` is read at every step. Neither is owned. `random`: the env group's stream.
  EpsilonGreedy(DqnPolicy& policy, const double& epsilon, Philox random)
      : policy_(policy), epsilon_(epsilon), random_(random) {}

  void refresh() override {}
  void act(const Observation& observation, const at::Tensor& mask, const Decisions& out) override;
  void episodes_ended(std::span<const std::uint8_t> /*done*/) override {}
  void evaluate(const Observation& observation, const at::Tensor& state, float* value) override;
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state) override { random_.load(state); }

 private:
  DqnPolicy& policy_;
  const double& epsilon_;
  Philox random_;
};

class Dqn final : public OffPolicyAgent {
 public:
  /// `policy` is the member's module, made with `networks` and `options`.
  Dqn(learner::Member member, DqnPolicy& policy, const NetworkOptions& networks, const DqnOptions& options);

  learner::LearnerReport learn(const Turn& now, std::span<OffPolicySums> sums,
                               std::span<std::vector<float>> errors) override;
  [[nodiscard]] std::unique_ptr<Actor> make_explorer(const ActorOptions& options, std::int64_t rows,
                                                     std::uint64_t run_seed, int group) override;
  void set_progress(double share) override { epsilon_ = options_.epsilon(share); }
  [[nodiscard]] model::NamedTensors targets() const override { return target_.state(); }
  void load_targets(const model::NamedTensors& saved) override { target_.load(saved); }
  [[nodiscard]] std::string gradients_by() const override;
  void append_figures(std::vector<std::pair<std::string, double>>& figures) const override {
    figures.emplace_back("epsilon", epsilon_);
  }

  /// The optimizer, for the team that trains the policy.
  static void set_optimizers(const DqnOptions& options, learner::TeamOptions& team);

 private:
  const learner::Member member_;
  DqnPolicy& policy_;
  const std::shared_ptr<ReturnNetwork> copy_;
  TargetNetwork target_;
  const DqnOptions options_;
  double epsilon_;
};

}  // namespace tandem::rl
