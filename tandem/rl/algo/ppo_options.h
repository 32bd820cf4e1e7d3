// rl/algo/ppo_options.h: the numbers of proximal policy optimisation.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/rl/rollout/batch_mode.h"
#include "tandem/rl/rollout/sequences.h"
#include "tandem/rl/rollout/time_limit.h"

namespace tandem::rl {

/// How a number changes over the run: kLinear falls to zero at total_steps.
enum class Schedule { kConstant, kLinear };

/// Over which rows advantages are brought to mean 0 and deviation 1; always over all shards of the run.
enum class AdvantageNormalization { kNone, kMinibatch, kBatch };

/// How the loss and its gradients are computed. All give the same numbers to rounding, the last two the same bits.
enum class LossKernel {
  kAuto,      // by fused kernels, else recorded on a CUDA device, else as kOff: what the policy allows (gradient_way.h)
  kRecorded,  // tensor operations and autograd, recorded (learner/replayed_loss.h); where that cannot be, an error
  kOff,       // tensor operations and autograd
};

/// Whether the shards' fragments have equally many steps.
enum class Fragments {
  kEven,
  kUneven,  // some may end earlier than others; a minibatch has a part of each, and rows count alike
};

/// Counts are totals of the run, so that they mean the same on any topology.
struct PpoOptions {
  int num_envs = 8;
  int rollout_steps = 128;  // of each environment, between updates
  BatchMode batch_mode = BatchMode::kTruncateEpisodes;
  int epochs = 4;  // passes over the rollout
  // One of the two:
  std::optional<std::int64_t> minibatches = 4;  // of a pass
  std::optional<std::int64_t> minibatch_size;   // rows over all shards

  double learning_rate = 3e-4;
  Schedule learning_rate_schedule = Schedule::kConstant;
  double adam_eps = 1e-5;
  double gamma = 0.99;
  double gae_lambda = 0.95;
  TimeLimit time_limit = TimeLimit::kBootstrap;
  double clip_range = 0.2;  // of the probability ratio
  Schedule clip_range_schedule = Schedule::kConstant;
  std::optional<double> clip_range_value;  // of the value's change; none: no clipping
  double entropy_coef = 0.0;
  Schedule entropy_coef_schedule = Schedule::kConstant;
  double kl_coef = 0.0;                  // of the mean divergence from the policy that sampled; see ppo_loss.h
  std::optional<double> kl_coef_target;  // divergence of an update that kl_coef is adapted to; none: it stays
  double value_coef = 0.5;               // of the mean squared error
  std::optional<double> max_grad_norm = 0.5;
  std::optional<double> target_kl;  // stop the update's passes when approx_kl exceeds 1.5 times this
  AdvantageNormalization advantage_normalization = AdvantageNormalization::kMinibatch;
  LossKernel kernel = LossKernel::kAuto;
  std::int64_t stall_timeout = 120;  // seconds that a step of an env group may take; others wait twice as long or more
  Fragments fragments = Fragments::kEven;
  std::optional<SequenceOptions> sequences;  // of policies that remember; none: of others

  [[nodiscard]] bool completes_episodes() const { return batch_mode == BatchMode::kCompleteEpisodes; }
  /// Of an update; at least, where it completes episodes.
  [[nodiscard]] std::int64_t batch_rows() const { return std::int64_t{num_envs} * rollout_steps; }
  /// Sequences of a rollout, where it is cut into some.
  [[nodiscard]] std::int64_t batch_sequences() const {
    return std::int64_t{num_envs} * SequenceCut(rollout_steps, *sequences).count();
  }
  /// Minibatches of a pass.
  [[nodiscard]] std::int64_t pass_minibatches() const {
    return minibatches ? *minibatches : batch_rows() / *minibatch_size;
  }
  /// Rows of a minibatch over all shards; of sequences with their burn-in and padding.
  [[nodiscard]] std::int64_t minibatch_rows() const {
    if (sequences) return batch_sequences() / pass_minibatches() * SequenceCut(rollout_steps, *sequences).window();
    return minibatch_size ? *minibatch_size : batch_rows() / minibatches.value_or(1);
  }
};

/// What is wrong with the options for a run of `shards` shards, a sentence each: the key, its value and what would
/// work. Empty when nothing is.
[[nodiscard]] std::vector<std::string> faults_of(const PpoOptions& options, int shards);

/// kl_coef of the next update, after one whose divergence was `kl`: half as much again when that was more than twice
/// the target, half when it was less than half of it. The rule of RLlib, after Schulman et al. (2017), section 4; but
/// it stays between a thousandth and the thousandfold of `first`, the one that the run began with: from there 18
/// updates bring it back, while without bounds a long calm would take it away for good.
[[nodiscard]] double adapted_kl_coef(double kl_coef, double target, double kl, double first);

/// `value` at `progress` (0 at the start, 1 at total_steps).
[[nodiscard]] double scheduled(double value, Schedule schedule, double progress);

}  // namespace tandem::rl
