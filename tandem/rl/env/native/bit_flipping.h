// rl/env/native/bit_flipping.h: BitFlipping-v0, the task that hindsight was shown on first.
//
// There are some bits, of which each action flips one; the goal is a pattern that was drawn with the first bits. Each
// step costs 1 until the bits are the goal, which ends the episode; after as many steps as there are bits it is cut
// short. By chance nearly no episode of 15 bits ever reaches its goal, so without hindsight there is nothing to learn
// from. M. Andrychowicz et al., "Hindsight experience replay" (2017), section 3.1.
//
// Threads: single-thread, as every environment.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/env_metrics.h"
#include "tandem/rl/env/env_options.h"

namespace tandem::rl {

/// An environment as env_concepts.h describes it, with goals as goal_rewards.h does.
class BitFlipping {
 public:
  /// Of 15 bits there are 32,768 goals, and an episode of chance reaches its own once in 2,700 times.
  struct Options {
    std::int64_t bits = 15;
  };
  static OptionsOf<Options> options() {
    return {{"bits", &Options::bits, "Bits, and steps of an episode.", {.least = 1, .most = 64}}};
  }
  /// `bits` must be the same in all episodes, since the spec depends on it. Throws ConfigError for another number.
  void configure(const Options& options);
  /// Asked at an episode's end.
  static MetricsOf<BitFlipping> metrics() {
    return {{"solved", &BitFlipping::is_solved, "Share of the episodes that reach their goal."}};
  }
  [[nodiscard]] bool is_solved() const { return now_ == goal_; }

  /// Bits are numbers, 0 and 1. Three leaves of as many: the bits, what was achieved, which is the same, and the goal.
  [[nodiscard]] Spec spec() const;
  /// Views of the environment's own bits, valid until the next call.
  using Seen = std::tuple<std::span<const float>, std::span<const float>, std::span<const float>>;
  /// Bits and goal are drawn. Where they are the same at once, it takes two steps to be there again.
  Seen reset(NumpyGenerator& random);
  StepResult<Seen> step(std::int64_t action);
  /// 0 where the goal is achieved, else -1; and it ends the episode.
  static double compute_reward(std::span<const float> achieved, std::span<const float> desired);
  static bool compute_terminated(std::span<const float> achieved, std::span<const float> desired) {
    return std::ranges::equal(achieved, desired);
  }

  /// The goal in the upper row, the bits in the lower one.
  void render(Canvas& canvas) const;

  /// The bits and the goal. load() throws CheckpointError for other numbers than 0 and 1.
  [[nodiscard]] std::vector<float> save() const;
  Seen load(std::span<const std::byte> state);

 private:
  // In the order of the spec.
  [[nodiscard]] Seen seen() const { return {now_, now_, goal_}; }

  // As long as there are bits; their memory never moves, as Seen asks.
  std::vector<float> now_, goal_;
};

}  // namespace tandem::rl
