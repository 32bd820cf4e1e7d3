// app/algo/ppo.h: PPO to the program, and what DD-PPO, which is PPO on ranks that do not wait for stragglers, has of
// it.
//
// Ppo holds no state of a run: options come in with each call, so one object serves every run of the process, from any
// thread. DdPpo derives from it, adds its own section of options, and overrides the three hooks at the end.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/rl/algo/ppo/ppo_run.h"

namespace tandem::app {

/// The numbers of PPO, with those that every algorithm has and what the policy asks for.
/// Returns a copy: `num_envs`, `rollout_steps` and the sequences of a recurrent policy are options of the program, and
/// the library's struct has them as fields.
[[nodiscard]] rl::PpoOptions ppo_options(const TrainOptions& options);

/// PPO's batch is a rollout of all environments; one update makes several passes over it.
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
  /// Says how env groups end their rollouts; called by make_run() when all other fields are set. Collective over the
  /// plan's ranks in DD-PPO, whose record rank 0 reads for all.
  virtual void set_rollouts(const RunPlan&, rl::PpoSetup&) const {}
};

/// Returns DD-PPO, whose class is private to dd_ppo.cc.
[[nodiscard]] std::unique_ptr<const Algorithm> make_dd_ppo();

}  // namespace tandem::app
