// rl/algo/impala/impala_loss.h: the losses of IMPALA and APPO, on the targets of V-trace (vtrace.h): by tensor
// operations, and by fused kernels for MLP policies and recurrent ones.
//
// IMPALA (Espeholt et al. 2018, section 4.2). With v_s and A_s of vtrace.h, constants here, and means over T * N steps:
//     policy = -mean(A_s log pi(a_s|x_s))
//     value  = mean((v_s - V(x_s))^2)
//     loss   = policy + value_coef * value - entropy_coef * mean(entropy)
//
// APPO, as RLlib has it (after Schulman et al. 2017, "Proximal policy optimization algorithms", equation 7, and
// Espeholt et al. 2018, section 4.1; the target network after Luo et al. 2020, "IMPACT"). mu acted, pi learns, and pi_T
// is a copy of pi that is renewed from time to time. The step from mu to pi_T is corrected by V-trace, and pi is kept
// near pi_T by the clip:
//     v_s, A_s = V-trace of vtrace.h with the ratio pi_T / mu and the values of pi, constants here
//     r        = min(2, mu / pi_T) pi / mu
//     policy   = -mean(min(r A, clip(r, 1 - c, 1 + c) A))
//     value    = mean((v_s - V(x_s))^2)
//     loss     = policy + value_coef * value - entropy_coef * mean(entropy) + kl_coef * mean(KL(pi_T || pi))
// A_s holds min(rho_clip, pi_T / mu), so no second correction is due. The minimum keeps r apart from 0 / 0 where mu
// took what pi_T would not.
//
// Threads: any, each with its own networks, which must be on the batch's device.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/learner/replayed_loss.h"
#include "tandem/rl/algo/fused_block.h"
#include "tandem/rl/algo/fused_sequences.h"
#include "tandem/rl/algo/impala/impala_options.h"
#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/algo/impala/vtrace.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Means over the steps of one batch. approx_kl: the divergence of the policy that acted (APPO: of pi_T) from the one
/// that learns, mean(r - 1 - log r) at the actions that were taken. clip_fraction: the share of the ratios above
/// rho_clip; APPO: of the ratios r outside the clip.
/// A shard without rows has zeros; its means do not count in mean_of().
struct ImpalaNumbers : Losses {
  std::int64_t rows = 0;  // the number of steps that the means are over
  // 1 - Var[v - V] / Var[v]; NaN when targets are all equal.
  double explained_variance = 0;
};

/// Means over the rows of all shards; of explained variances over those that have one.
/// NaN when no shard has rows.
[[nodiscard]] ImpalaNumbers mean_of(std::span<const ImpalaNumbers> shards);

/// What makes the loss APPO's: pi_T, and the numbers that IMPALA has not.
struct AppoTarget {
  ActorCritic& network;
  const AppoOptions& options;
};

/// The loss of one trajectory's batch; IMPALA's without `appo`. Writes its numbers to `numbers`. The weight of the
/// result is the number of steps, so that shards of different sizes give the mean over all steps. Gradients flow to
/// `policy` alone, which is a RecurrentActorCritic where the options have a sequence_length. Waits for its device.
[[nodiscard]] learner::ShardLoss impala_loss(ActorCritic& policy, const std::optional<AppoTarget>& appo,
                                             const learner::ShardBatch& batch, const ImpalaOptions& options,
                                             ImpalaNumbers& numbers);
/// Computes the loss as impala_loss() does, and leaves the numbers on the device for a learner::ReplayedLoss. Batches
/// of decisions on a CUDA device are not supported, since V-trace of decisions runs on the host.
[[nodiscard]] learner::DeviceLoss impala_loss_on_device(ActorCritic& policy, const std::optional<AppoTarget>& appo,
                                                        const learner::ShardBatch& batch, const ImpalaOptions& options);
/// Reads those numbers on the host. `rows`: of the shard.
[[nodiscard]] ImpalaNumbers numbers_of(std::int64_t rows, std::span<const double> numbers);

/// One trajectory's numbers, in float64 and time-major, as V-trace takes and gives them. The memory is used again from
/// batch to batch.
/// Float64 is used for Real = float, too: rounding would add up over the T steps of the recursion.
struct VtraceMemory {
  /// Takes the steps' rewards, discounts and the log-probabilities of the policy that acted. Throws InvariantError for
  /// columns that are not of `Real`. One object a replica: it has the memory of a batch.
  template <typename Real>
  void take(const TrajectoryView& seen, double gamma);
  /// Computes log_ratio, value_target and advantage. `corrected` and value must be filled.
  void trace(const ImpalaOptions& options);

  std::int64_t steps = 0, rows = 0;
  const std::int64_t* next = nullptr;           // of decisions; of the view's memory
  std::vector<double> acted, reward, discount;  // [T, N]; acted: log mu
  std::vector<double> corrected;                // [T, N]: log pi, or pi_T of APPO, whose ratio to mu V-trace corrects
  std::vector<double> log_ratio, value;         // [T, N], [T + 1, N]; of decisions [C], [C + B]
  std::vector<double> value_target, advantage;  // [T, N]
};

/// The losses for an MlpPolicy or a RecurrentPolicy, with the gradients of all its parameters, without autograd.
/// V-trace needs log pi and V of a whole trajectory before any row has a derivative, so the rows go through the network
/// twice (fused_block.h, fused_sequences.h): forward for those, then forward and backward. A single block of sequences
/// goes forward once. impala_loss() with autograd is the definition; this gives the same numbers to rounding, in a
/// fraction of the time for small networks. The bits depend on the rows, the parameters and the instruction set alone.
/// `Real`: of the parameters and of the columns, but for observations. Single-thread, the replica's. Policies are not
/// owned and must outlive it.
template <typename Real>
class FusedVtrace {
 public:
  /// `target`: APPO's, of the policy's class, which is read only and gets no gradients; null with IMPALA.
  /// why_not_fused() must be silent about both, but for their dtype. Throws ConfigError when this processor does not
  /// have `set`, and as require_compute(). Policies that remember multiply float32 whatever `compute` is.
  FusedVtrace(const ActorCritic& policy, const ActorCritic* target, InstructionSet set,
              Compute compute = Compute::kFloat32);

  /// Computes impala_loss() of one trajectory's rows, with the gradients of all parameters; a GradientFunction but for
  /// its other arguments. Throws EnvError for an observation that is out of the spec's bounds, and InvariantError for a
  /// kl_coef above 0 with continuous actions, which has no kernels. The weight of the result is the number of rows that
  /// are learned from. Overwrites the .grad of every parameter.
  learner::WrittenLoss run(const learner::ShardRows& rows, const ImpalaOptions& options,
                           const std::optional<AppoOptions>& appo, ImpalaNumbers& numbers);

 private:
  // A policy that remembers is run through its sequences from the states that acting had before their first steps.
  // Steps 1 and 2 of run(): V-trace's numbers of the trajectory, by one kind of pass or the other.
  void trace_blocks(const ImpalaOptions& options);
  void trace_sequences(const ImpalaOptions& options);

  // One of the first two, and with APPO one of the others.
  std::optional<FusedBlock<Real>> block_;
  std::optional<FusedSequences<Real>> sequences_;
  std::optional<FusedBlock<Real>> target_block_;
  std::optional<FusedSequences<Real>> target_sequences_;
  TrajectoryView seen_;
  SequencePlaces places_;
  std::vector<std::uint8_t> learned_;  // by row, of sequences
  // The target's distributions by row, as ChoiceDivergence has them; empty where none are wanted.
  std::vector<Real> distributions_;
  const bool discrete_;
  const std::int64_t head_size_;
  VtraceMemory trace_;
};

extern template class FusedVtrace<float>;
extern template class FusedVtrace<double>;

}  // namespace tandem::rl
