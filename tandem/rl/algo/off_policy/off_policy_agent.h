// rl/algo/off_policy/off_policy_agent.h: what tells algorithms that learn from a replay apart: their losses, their
// target networks and how they explore.
//
// A run has one for each replica, which makes the same steps as those of the others.
//
// Threads: single-thread, the replica's.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/concurrency/limits.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/off_policy/off_policy_options.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Sums over the rows that were learned from.
struct OffPolicySums : Losses {
  double rows = 0;         // of critics: value_loss and value are sums over them
  double policy_rows = 0;  // of the actor: policy_loss and entropy are
  double value = 0;        // the estimates of Q(s, a), their mean over the critics

  void add(const OffPolicySums& other);
};

/// The result of a critics' loss, whose weight is the number of rows. `values`: the estimates, of any shape; `error`
/// [B]: the size of each row's error, which is appended to `errors` where that is not null.
[[nodiscard]] learner::ShardLoss critic_result(const at::Tensor& loss, const at::Tensor& values,
                                               const at::Tensor& error, OffPolicySums& sums,
                                               std::vector<float>* errors);

class OffPolicyAgent {
 public:
  virtual ~OffPolicyAgent() = default;

  /// Tensors of noise that the losses take with each row (TransitionRows::noise).
  [[nodiscard]] virtual int noises() const { return 0; }
  struct Turn {
    std::int64_t turn = 0;  // counted from 0 over the whole run
    double rate = 1;        // multiplies all learning rates
    // Shards choose by it what all choose alike in the turn.
    std::uint64_t seed = 0;
    Limits limits = {};
  };
  /// The optimizer steps of one turn, from the rows that the member's learner has loaded, and what follows them: the
  /// target networks' way. Adds to `sums`, by shard of the replica, and appends the size of each row's error to
  /// `errors`, by shard, unless there are none. Waits for the other replicas.
  virtual learner::LearnerReport learn(const Turn& now, std::span<OffPolicySums> sums,
                                       std::span<std::vector<float>> errors) = 0;

  /// Makes what explores in an env group: actions drawn from the policy, or its best ones with noise.
  [[nodiscard]] virtual std::unique_ptr<Actor> make_explorer(const ActorOptions& options, std::int64_t rows,
                                                             std::uint64_t run_seed, int group) = 0;
  /// The share of the run that is done, for schedules.
  virtual void set_progress(double /*share*/) {}

  /// Target networks by name, alive and in place.
  [[nodiscard]] virtual model::NamedTensors targets() const = 0;
  virtual void load_targets(const model::NamedTensors& saved) = 0;

  /// See TrainingRun.
  [[nodiscard]] virtual std::string gradients_by() const = 0;
  /// Appends what a report tells besides the losses, as names with numbers: the temperature, say.
  virtual void append_figures(std::vector<std::pair<std::string, double>>& /*figures*/) const {}
};

}  // namespace tandem::rl
