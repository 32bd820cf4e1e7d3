// app/algo/ppo.h: PPO to the program, and what DD-PPO, which is PPO on ranks that do not wait for stragglers, has of
// it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/rl/algo/ppo/ppo_run.h"

namespace tandem::app {

/// The numbers of PPO, with those that every algorithm has and what the policy asks for.
[[nodiscard]] rl::PpoOptions ppo_options(const TrainOptions& options);

class Ppo : public Algorithm {
 public:
  [[nodiscard]] std::string name() const override { return "ppo"; }
  void add_options(OptionTable& table, TrainOptions& options) const override;
  void check(Rules& rules) const override;
  [[nodiscard]] std::vector<OptionCheck> checks(const CheckPlace& place) const override;
  [[nodiscard]] BatchSize batch_size(const TrainOptions& options) const override;
  [[nodiscard]] std::string describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const override;
  [[nodiscard]] bool can_lose_ranks() const override { return true; }
  [[nodiscard]] std::vector<Knob> knobs(const TrainOptions& given, const Machine& machine) const override;
  [[nodiscard]] std::unique_ptr<rl::TrainingRun> make_run(const RunPlan& plan) const override;

 protected:
  /// Rules about survivors, rollouts and the strategy, in which the two differ.
  virtual void check_rollouts(Rules& rules) const;
  /// Whether env groups may end their rollouts early or rest.
  [[nodiscard]] virtual bool may_have_fewer_rows(const TrainOptions&) const { return false; }
  virtual void set_rollouts(const RunPlan&, rl::PpoSetup&) const {}
};

[[nodiscard]] std::unique_ptr<const Algorithm> make_dd_ppo();

}  // namespace tandem::app
