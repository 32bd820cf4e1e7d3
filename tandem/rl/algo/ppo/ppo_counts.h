// rl/algo/ppo_counts.h: whether the counts of PPO's options fit each other.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/algo/ppo_options.h"

namespace tandem::rl {

struct PpoFault {
  std::string key, value;  // of PpoOptions
  std::string problem;     // and what would work
};

namespace counts_detail {

// What to write instead of a count that does not fit: `unit` times the divisors of `total`, of at least `least`, next
// to `wanted`. Empty when there is none.
inline std::string nearest_divisors(std::int64_t total, std::int64_t wanted, std::int64_t unit = 1,
                                    std::int64_t least = 1) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t d = 1; d <= total / d; ++d) {
    if (total % d != 0) continue;
    for (const std::int64_t divisor : {d, total / d}) {
      if (divisor < least) continue;
      if (divisor <= wanted && divisor > below) below = divisor;
      if (divisor > wanted && (above == 0 || divisor < above)) above = divisor;
    }
  }
  if (below == 0) return above == 0 ? "" : concat(above * unit);
  return above == 0 ? concat(below * unit) : concat(below * unit, " or ", above * unit);
}

inline std::string nearest_multiples(std::int64_t unit, std::int64_t wanted) {
  const std::int64_t below = wanted / unit * unit;
  return below == 0 ? concat(unit) : concat(below, " or ", below + unit);
}

inline std::vector<PpoFault> sequence_faults(const PpoOptions& options, std::int64_t shards) {
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

inline std::vector<PpoFault> minibatch_faults(const PpoOptions& options, std::int64_t shards) {
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

}  // namespace counts_detail

/// Every shard must get whole environments, and every minibatch the same rows of every shard, so that nothing is left
/// over. The counts and `shards` are at least 1. `least_shards`: how few of them may be proposed, the run's replicas.
[[nodiscard]] inline std::vector<PpoFault> count_faults(const PpoOptions& options, std::int64_t shards,
                                                        std::int64_t least_shards) {
  if (options.minibatches.has_value() == options.minibatch_size.has_value()) {
    return {{"minibatches", options.minibatches ? concat(*options.minibatches) : "none",
             "give exactly one of minibatches and minibatch_size"}};
  }
  if (options.num_envs % shards == 0) return counts_detail::minibatch_faults(options, shards);
  const std::string fewer = counts_detail::nearest_divisors(options.num_envs, shards, 1, least_shards);
  return {
      {"num_envs", concat(options.num_envs),
       concat("does not divide into ", shards, " shards; ", counts_detail::nearest_multiples(shards, options.num_envs),
              " would", fewer.empty() ? "" : ", or shards: ", fewer)}};
}

/// Of recorded rollouts, the steps of each env group by update: what is wrong with the first update that leaves a
/// minibatch without rows; empty when none does. Counts as count_faults() wants them. (Rules that end rollouts early
/// leave none: who finishes first has made all its steps.)
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
