// rl/algo/impala/impala_learner.h: the learning half of IMPALA and APPO: a policy on every replica of this rank, APPO's
// target network beside each, and steps that all of them make on one batch, together with the replicas of other ranks.
// Runs of several policies have one for each.
//
// Each replica computes V-trace, losses and gradients of its shards of the batch, and the strategy makes one step of
// all gradients. With the same shards any number of replicas gives the same bits. The target networks are equal as
// well: each takes the weights of the policy beside it after the same steps.
//
// Gradients come from fused kernels (FusedVtrace), from a replayed loss or from autograd; choose_gradients() decides
// (gradient_way.h), the same for all replicas.
//
// Threads: one at a time; the replicas' threads do the work meanwhile. Blocking: step() waits until all replicas of all
// ranks have made it, at most as long as the patience. The constructor and step() are collective. Failures: as
// ReplicaTeam; the first ends the others' waits, and the learner is of no further use.
#pragma once
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/learner/replica_team.h"
#include "tandem/rl/algo/gradient_way.h"
#include "tandem/rl/algo/impala/impala_loss.h"
#include "tandem/rl/algo/impala/impala_options.h"
#include "tandem/rl/algo/run_setup.h"

namespace tandem::rl {

/// Everything that a run of IMPALA or APPO is made of. The devices are the learner's. ImpalaRun checks it.
struct ImpalaSetup : RunSetup {
  ImpalaOptions impala;
  std::optional<AppoOptions> appo;  // none: IMPALA
};

/// Parameters and buffers of a module, in its order.
/// Two modules of the same class have the same order, so weights can be copied by position.
using Weights = std::vector<at::Tensor>;

/// Returns the module's own tensors, alive: they change as the module learns. Parameters are detached, so that copying
/// into them is no operation of autograd.
[[nodiscard]] inline Weights weights_of(torch::nn::Module& module) {
  Weights weights;
  for (const at::Tensor& parameter : module.parameters()) weights.push_back(parameter.detach());
  for (const at::Tensor& buffer : module.buffers()) weights.push_back(buffer);
  return weights;
}

/// Returns copies on the CPU, with the present values.
[[nodiscard]] inline Weights copies_of(const Weights& weights) {
  const at::NoGradGuard no_grad;
  Weights copies;
  for (const at::Tensor& tensor : weights) copies.push_back(tensor.to(at::kCPU, tensor.scalar_type(), false, true));
  return copies;
}

/// Copies values between tensors of the same shapes, also between devices, one after the other; a reader of `to` must
/// be kept away meanwhile. Throws InvariantError for another number of tensors.
inline void copy_weights(const Weights& from, const Weights& to) {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(from.size() == to.size(), from.size(), " tensors for ", to.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

/// How the batches of a policy are made.
/// Only batches of one shape can be recorded and replayed (gradient_way.h).
enum class BatchesOf {
  kTrajectories,  // whole fragments: all of one shape
  kDecisions,     // decisions: as many as there were
};

/// The policy that a learner trains.
/// `build` is called once for each replica and, with APPO, once more for its target.
struct LearnedPolicy {
  std::function<std::shared_ptr<ActorCritic>()> build;  // with the same parameters each time, on the CPU
  // The seed of everything that learning draws.
  std::uint64_t seed = 0;
  std::string threads = "replica";  // the replicas' threads' name
  BatchesOf batches = BatchesOf::kTrajectories;
};

class ImpalaLearner {
 public:
  /// `patience`: how long a replica waits for the others. `setup` must outlive the learner. Throws ConfigError for
  /// shards that the replicas cannot share, and for several replicas under a strategy whose numbers depend on which of
  /// them is fast.
  ImpalaLearner(const ImpalaSetup& setup, const LearnedPolicy& learned, Clock::duration patience);

  /// The outcome of one step. `grad_norm` is the norm before clipping, the same on all replicas.
  struct Step {
    std::span<const ImpalaNumbers> shards;  // of this rank's; until the next step
    double grad_norm = 0;
    // Time that this rank waited for other replicas: the shortest wait of its replicas.
    double wait_seconds = 0;
  };
  /// `batch`: trajectories or decisions, by shard of this rank. A shard may have no rows, but not all of all ranks.
  [[nodiscard]] Step step(std::span<const learner::Batch> batch, double lr_factor);
  /// APPO's targets take the policy's weights.
  /// Nothing happens with IMPALA. Call it on all ranks after the same step.
  void renew_targets();

  /// The team owns optimizers and gradients; the learner owns policies and targets. Call it between steps.
  [[nodiscard]] learner::ReplicaTeam& team() { return *team_; }
  [[nodiscard]] const learner::ReplicaTeam& team() const { return *team_; }
  /// The policy and weights of this rank's first replica, alive. All replicas have the same.
  [[nodiscard]] const ActorCritic& policy() const { return *seats_.front().policy; }
  [[nodiscard]] const Weights& weights() const { return seats_.front().weights; }
  /// Replicas of all ranks.
  [[nodiscard]] int replicas() const { return replicas_; }
  /// Shards of this rank.
  [[nodiscard]] Range shards() const { return shards_; }
  /// By shard of this rank, the device of the replica that learns from it.
  [[nodiscard]] const std::vector<c10::Device>& shard_devices() const { return shard_devices_; }
  /// A sentence for the log; see TrainingRun::gradients_by().
  [[nodiscard]] const std::string& gradients_by() const { return gradients_.sentence; }

  /// The target network's parameters and buffers, alive; empty with IMPALA.
  [[nodiscard]] model::NamedTensors target() const;
  void load_target(const model::NamedTensors& target);

 private:
  // The policy, target and gradients of one replica.
  struct Seat {
    // `target` is APPO's; null with IMPALA.
    std::shared_ptr<ActorCritic> policy, target;
    // The tensors of both networks, alive.
    Weights weights, target_weights;
    std::optional<AppoTarget> appo;
    // At most one of the next two is set, by gradients_.way.
    std::unique_ptr<FusedVtrace<float>> fused;
    std::unique_ptr<learner::ReplayedLoss> replayed;
    double wait_seconds = 0;  // in the last step
  };

  void build_target(Seat& seat, const std::shared_ptr<ActorCritic>& like) const;
  [[nodiscard]] GradientChoice choose(const LearnedPolicy& learned) const;
  void build_gradients(Seat& seat, sync::Replica& replica) const;
  [[nodiscard]] ImpalaNumbers& numbers_of(int shard) {
    return numbers_[static_cast<std::size_t>(shard - shards_.begin)];
  }
  learner::LearnerReport step_of(Seat& seat, learner::Learner& learner, double lr_factor);

  // Not owned.
  const ImpalaSetup& setup_;
  const Clock::duration patience_;
  int replicas_ = 1;
  Range shards_;
  std::vector<c10::Device> shard_devices_;
  std::vector<Seat> seats_;             // by replica of this rank
  GradientChoice gradients_;            // of all seats
  std::vector<ImpalaNumbers> numbers_;  // of the last step, by shard of this rank
  std::unique_ptr<learner::ReplicaTeam> team_;
};

}  // namespace tandem::rl
