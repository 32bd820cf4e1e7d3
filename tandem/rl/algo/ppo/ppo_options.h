// rl/algo/ppo/ppo_options.h: the numbers of proximal policy optimisation, and whether its counts fit each other.
//
// What the program's configuration asks, which is without LibTorch, is all in this header.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/algo/learning_options.h"
#include "tandem/rl/policy/kernels/compute.h"
#include "tandem/rl/rollout/sequences.h"

namespace tandem::rl {

/// Over which rows advantages are brought to mean 0 and deviation 1: none, those of each minibatch, or the whole
/// rollout. The moments are always those of all shards of the run, so that they do not depend on how shards are spread.
/// kMinibatch is what CleanRL and stable-baselines3 do by default.
enum class AdvantageNormalization { kNone, kMinibatch, kBatch };

/// Where a rollout ends, in RLlib's words. kTruncateEpisodes: after rollout_steps, and episodes go on in the next one.
/// kCompleteEpisodes: with the episode that each environment is in then; see complete_episodes.h.
enum class BatchMode { kTruncateEpisodes, kCompleteEpisodes };

/// Whether the shards' fragments have equally many steps.
enum class Fragments {
  kEven,
  kUneven,  // some may end earlier than others; a minibatch has a part of each, and rows count alike
};

/// Counts are totals of the run, so that they mean the same on any topology: num_envs environments are divided among
/// the shards, and the rows of a minibatch as well.
/// Rows are environment steps; of several agents, decisions.
struct PpoOptions {
  int num_envs = 8;
  // Steps of each environment between updates.
  int rollout_steps = 128;
  BatchMode batch_mode = BatchMode::kTruncateEpisodes;
  // Passes over each rollout.
  int epochs = 4;
  // Exactly one of the next two has a value.
  std::optional<std::int64_t> minibatches = 4;  // of a pass
  std::optional<std::int64_t> minibatch_size;   // rows over all shards

  double learning_rate = 3e-4;
  Schedule learning_rate_schedule = {};
  // Added to the root of Adam's second moment.
  double adam_eps = 1e-5;
  // The discount of a step, or of a decision of several agents.
  double gamma = 0.99;
  // The decay of compute_gae(): 0 trusts the value function, 1 the sampled returns.
  double gae_lambda = 0.95;
  TimeLimit time_limit = TimeLimit::kBootstrap;
  // The probability ratio counts from 1 - clip_range to 1 + clip_range.
  double clip_range = 0.2;
  Schedule clip_range_schedule = {};
  // The largest change of a value that the value loss sees. Without one, values are not clipped.
  std::optional<double> clip_range_value;
  double entropy_coef = 0.0;
  Schedule entropy_coef_schedule = {};
  // The weight of the mean divergence from the policy that sampled (ppo_loss.h).
  double kl_coef = 0.0;
  // The divergence of an update that kl_coef is adapted to. Without one, kl_coef stays as it is.
  std::optional<double> kl_coef_target;
  // The weight of the mean squared error of the values.
  double value_coef = 0.5;
  std::optional<double> max_grad_norm = 0.5;
  // An update stops its passes when approx_kl exceeds 1.5 times this.
  std::optional<double> target_kl;
  AdvantageNormalization advantage_normalization = AdvantageNormalization::kMinibatch;
  LossKernel kernel = LossKernel::kAuto;
  // What the kernels multiply while learning. Acting multiplies float32, so ratios of the first minibatch are not quite
  // 1: what rounding does to a probability is far below the clip range.
  Compute compute = Compute::kFloat32;
  // Seconds that a step of an env group may take. Other replicas wait twice as long or more.
  std::int64_t stall_timeout = 120;
  Fragments fragments = Fragments::kEven;
  // Present for policies that remember, and only for these.
  std::optional<SequenceOptions> sequences;

  /// Whether rollouts end with episodes, so that fragments differ in their rows.
  [[nodiscard]] bool completes_episodes() const { return batch_mode == BatchMode::kCompleteEpisodes; }
  /// Environment steps of an update; where it completes episodes, the fewest.
  [[nodiscard]] std::int64_t batch_rows() const { return std::int64_t{num_envs} * rollout_steps; }
  /// Sequences of a rollout over all shards. `sequences` must have a value.
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

/// Returns what is wrong with the options for a run of `shards` shards, a sentence each: the key, its value and what
/// would work. Empty when nothing is.
[[nodiscard]] std::vector<std::string> faults_of(const PpoOptions& options, int shards);

/// kl_coef of the next update, after one whose divergence was `kl`: half as much again when that was more than twice
/// the target, half when it was less than half of it. The rule of RLlib, after Schulman et al. (2017), section 4; but
/// it stays between a thousandth and the thousandfold of `first`, the one that the run began with: from there 18
/// updates bring it back, while without bounds a long calm would take it away for good.
[[nodiscard]] double adapted_kl_coef(double kl_coef, double target, double kl, double first);

namespace ppo_detail {

// A minibatch has whole sequences, as many of each shard.
inline std::vector<CountFault> sequence_faults(const PpoOptions& options, std::int64_t shards) {
  if (options.minibatch_size && options.batch_rows() % *options.minibatch_size != 0) {
    return {{"minibatch_size", concat(*options.minibatch_size),
             concat("does not divide the ", options.batch_rows(), " rows of a rollout; ",
                    nearest_divisors(options.batch_rows(), *options.minibatch_size), " would")}};
  }
  const std::int64_t of_shard = options.batch_sequences() / shards;
  const std::int64_t minibatches = options.pass_minibatches();
  if (of_shard % minibatches == 0) return {};
  const std::string key = options.minibatches ? "minibatches" : "minibatch_size";
  return {{key, concat(options.minibatches ? minibatches : *options.minibatch_size),
           concat(options.minibatches ? "" : concat("makes ", minibatches, " minibatches, which "),
                  "does not divide the ", of_shard, " sequences of a shard's rollout; ",
                  nearest_divisors(of_shard, minibatches), " minibatches would")}};
}

// A minibatch has as many rows of each shard.
inline std::vector<CountFault> minibatch_faults(const PpoOptions& options, std::int64_t shards) {
  if (options.sequences) return sequence_faults(options, shards);
  const std::int64_t rows_of_shard = options.batch_rows() / shards;
  const std::string rollout =
      concat("does not divide the ", options.batch_rows(), " rows of a rollout (", options.num_envs, " environments x ",
             options.rollout_steps, " steps, ", shards, shards == 1 ? " shard); " : " shards); ");
  if (options.minibatches) {
    const std::int64_t minibatches = *options.minibatches;
    if (rows_of_shard % minibatches == 0) return {};
    return {
        {"minibatches", concat(minibatches), concat(rollout, nearest_divisors(rows_of_shard, minibatches), " would")}};
  }
  const std::int64_t size = *options.minibatch_size;
  if (size % shards == 0 && rows_of_shard % (size / shards) == 0) return {};
  return {{"minibatch_size", concat(size),
           concat(rollout, nearest_divisors(rows_of_shard, size / shards, shards), " would")}};
}

// The advantage of a row that is normalised alone is 0, and the policy would never move.
inline std::vector<CountFault> lonely_row_faults(const PpoOptions& options) {
  const auto fault = [](const char* key, std::int64_t value, const char* makes) -> std::vector<CountFault> {
    return {{key, concat(value),
             concat("makes ", makes, " of 1 row, whose advantage becomes 0 when it is normalised alone ",
                    "(advantage_normalization), so that the policy would learn nothing; take at least 2 rows, or "
                    "advantage_normalization: none")}};
  };
  const std::int64_t rows = options.batch_rows();
  if (options.advantage_normalization == AdvantageNormalization::kNone) return {};
  if (rows == 1 && !options.completes_episodes()) return fault("rollout_steps", options.rollout_steps, "a rollout");
  if (options.advantage_normalization == AdvantageNormalization::kBatch || rows > options.pass_minibatches()) return {};
  return options.minibatches ? fault("minibatches", *options.minibatches, "minibatches")
                             : fault("minibatch_size", *options.minibatch_size, "minibatches");
}

}  // namespace ppo_detail

/// Every shard must get whole environments, and every minibatch the same rows of every shard, so that nothing is left
/// over; and where advantages are normalised, a minibatch needs two rows. (One row that an early end leaves to a
/// minibatch has the advantage 0.) The counts and `shards` are at least 1. `least_shards`: how few of them may be
/// proposed, the run's replicas.
[[nodiscard]] inline std::vector<CountFault> count_faults(const PpoOptions& options, std::int64_t shards,
                                                          std::int64_t least_shards) {
  if (options.minibatches.has_value() == options.minibatch_size.has_value()) {
    return {{"minibatches", options.minibatches ? concat(*options.minibatches) : "none",
             "give exactly one of minibatches and minibatch_size"}};
  }
  if (options.num_envs % shards == 0) {
    const std::vector<CountFault> faults = ppo_detail::minibatch_faults(options, shards);
    return faults.empty() ? ppo_detail::lonely_row_faults(options) : faults;
  }
  const std::string fewer = nearest_divisors(options.num_envs, shards, 1, least_shards);
  return {{"num_envs", concat(options.num_envs),
           concat("does not divide into ", shards, " shards; ", nearest_multiples(shards, options.num_envs), " would",
                  fewer.empty() ? "" : ", or shards: ", fewer)}};
}

/// Returns the minibatch_size that goes with the other counts: the largest up to that of `options`, else the smallest
/// above it. None where no size does, or where the options have minibatches instead.
[[nodiscard]] inline std::optional<std::int64_t> fitting_minibatch_size(PpoOptions options, std::int64_t shards) {
  if (!options.minibatch_size || options.minibatches) return {};
  const std::int64_t rows = options.batch_rows(), wanted = std::min(*options.minibatch_size, rows);
  const auto fits = [&](std::int64_t size) {
    options.minibatch_size = size;
    return rows % size == 0 && count_faults(options, shards, 1).empty();
  };
  for (std::int64_t size = wanted; size >= 1; --size) {
    if (fits(size)) return size;
  }
  for (std::int64_t size = wanted + 1; size <= rows; ++size) {
    if (fits(size)) return size;
  }
  return {};
}

/// Returns what is wrong with the first update of a record that leaves a minibatch without rows; empty when none does.
/// `recorded`: the steps of each env group, by update. Counts as count_faults() wants them. (Rules that end rollouts
/// early leave none: who finishes first has made all its steps.)
[[nodiscard]] inline std::string record_fault(const PpoOptions& options, std::int64_t shards,
                                              const std::vector<std::vector<int>>& recorded) {
  const std::int64_t envs = options.num_envs / shards, minibatches = options.pass_minibatches();
  for (std::size_t update = 0; update < recorded.size(); ++update) {
    int most = 0;
    for (const int steps : recorded[update]) most = std::max(most, steps);
    const std::int64_t rows = envs * (options.sequences ? SequenceCut(most, *options.sequences).count() : most);
    if (rows >= minibatches) continue;
    return concat("update ", update + 1, " has groups of ", most, " steps at most, which are ", rows,
                  options.sequences ? " sequences" : " rows", ", fewer than the ", minibatches,
                  " minibatches of a pass; ask for as many as the recorded run had");
  }
  return "";
}

}  // namespace tandem::rl
