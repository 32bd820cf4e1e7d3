// app/algo/off_policy.h: what algorithms that learn from a replay are alike in to the program: options, rules, the
// batch and how a run is built. Each is a class of its own on this one.
//
// One object serves all runs of the process, from any thread.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/rl/algo/off_policy/critic_options.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/algo/off_policy/off_policy_run.h"

namespace tandem::app {

/// Adds the options of rl::OffPolicyOptions to an algorithm's section, but those that every algorithm has.
void add_off_policy_options(const OptionSection& section, rl::OffPolicyOptions& options);

/// Adds what rl::CriticOptions has besides.
void add_critic_options(const OptionSection& section, rl::CriticOptions& options);

/// The networks that the settings of a policy describe, with critics as `options` say.
[[nodiscard]] rl::NetworkOptions network_options(const PolicySettings& settings);
[[nodiscard]] rl::NetworkOptions network_options(const PolicySettings& settings, const rl::CriticOptions& options);

/// Its functions serve sac, td3, ddpg and dqn alike; a derived class has a name, options, networks and an agent.
class OffPolicyAlgorithm : public Algorithm {
 public:
  /// Rules of counts and strategies, and settings of policies that would do nothing.
  void check(Rules& rules) const override;
  [[nodiscard]] std::vector<OptionCheck> checks(const CheckPlace& place) const override;
  [[nodiscard]] BatchSize batch_size(const TrainOptions& options) const override;
  [[nodiscard]] std::string describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const override;
  [[nodiscard]] std::unique_ptr<rl::TrainingRun> make_run(const RunPlan& plan) const override;

 protected:
  /// The beginning of its options' keys.
  [[nodiscard]] virtual std::string section() const { return name(); }
  /// The algorithm's own options with the counts that every algorithm has.
  [[nodiscard]] virtual rl::OffPolicyOptions off_policy_options(const TrainOptions& options) const = 0;
  /// Sets the algorithm's parts of a setup: its optimizers and agents.
  virtual void set_agent(const TrainOptions& options, rl::OffPolicySetup& setup) const = 0;
  /// Throws ConfigError when an environment's actions are not those that it can learn.
  virtual void check_actions(const TrainOptions& options, const rl::Spec& spec) const = 0;

  /// Throws ConfigError where there is hindsight and the environment has no goals.
  void check_goals(const TrainOptions& options, const rl::Spec& spec) const;

  /// `its` with the counts that every algorithm has.
  [[nodiscard]] static rl::OffPolicyOptions with_counts(const TrainOptions& options, rl::OffPolicyOptions its);
};

}  // namespace tandem::app
