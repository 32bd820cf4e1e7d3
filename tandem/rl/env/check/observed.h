// rl/env/check/observed.h: what a play showed: ranges of observations, rewards and the lengths of episodes.
//
// It keeps numbers about what it saw, and no observation: a play of a million steps takes no more memory than a short
// one. What the numbers mean for learning is judged elsewhere (scale_findings.h).
//
// Threads: single-thread; plain values that are copied freely. Errors: none.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tandem/rl/env/check/play.h"

namespace tandem::rl {

/// Count, mean, deviation and range of numbers (Welford's method), in float64. All are 0 before the first number, but
/// for the range, which is empty.
class Moments {
 public:
  /// The number must be finite.
  void add(double value);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double mean() const { return mean_; }
  /// The standard deviation of these numbers themselves: divided by their count.
  [[nodiscard]] double deviation() const;
  [[nodiscard]] double least() const { return least_; }
  [[nodiscard]] double most() const { return most_; }
  /// Whether all numbers were the same; true of none.
  [[nodiscard]] bool constant() const { return least_ >= most_; }

 private:
  std::int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;
  double least_ = std::numeric_limits<double>::infinity(), most_ = -std::numeric_limits<double>::infinity();
};

/// The first time that an element of an observation was outside of its bounds, and how far. Later ones are not kept,
/// since a spec that is wrong is wrong in many steps.
struct OutOfBounds {
  std::size_t environment = 0;
  std::int64_t step = 0;  // of the play; 0 is the reset
  double value = 0;
};

/// A leaf of an agent's observation, element by element in row-major order, over all environments and steps.
struct ObservedLeaf {
  std::vector<Moments> elements;
  /// By element; nothing where it stayed within its bounds, or has none.
  std::vector<std::optional<OutOfBounds>> outside;
};

/// What an agent saw and earned. Rewards are those of steps in which its episode was under way, returns those of
/// episodes that ended during the play.
struct ObservedAgent {
  std::vector<ObservedLeaf> leaves;
  Moments reward, episode_return;
  // Rewards that are not zero.
  std::int64_t rewarded = 0;
  // Masks of steps in which the agent acts, and those that forbid something.
  std::int64_t masks = 0, forbidding = 0;
};

/// The numbers of a play until now.
class Observed {
 public:
  /// Of no step; `spec` is the play's.
  explicit Observed(const MultiAgentSpec& spec, std::size_t environments);

  /// Takes in what the play's last reset() or step() wrote.
  void look(const Play& play);

  [[nodiscard]] const std::vector<ObservedAgent>& agents() const { return agents_; }
  /// Steps of the episodes that ended; and the steps of the play, of each environment.
  [[nodiscard]] const Moments& lengths() const { return lengths_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Episodes that ended because the task did; the others reached a limit.
  [[nodiscard]] std::int64_t terminated() const { return terminated_; }
  /// Ends whose last observation is the very one that the next episode begins with, and those that are not.
  [[nodiscard]] std::int64_t same_final() const { return same_final_; }
  [[nodiscard]] std::int64_t other_final() const { return other_final_; }

 private:
  void look_at_leaves(const Play& play, std::size_t agent);
  // One observation of environment e.
  void look_at_row(const Leaf& leaf, const std::byte* at, std::size_t e, ObservedLeaf& seen) const;
  void look_at_ends(const Play& play);

  const MultiAgentSpec spec_;
  std::vector<ObservedAgent> agents_;
  Moments lengths_;
  std::int64_t steps_ = -1, terminated_ = 0, same_final_ = 0, other_final_ = 0;
  // Of the episodes under way: steps by environment; returns by agent and environment, and which agents are out of it.
  std::vector<std::int64_t> length_;
  std::vector<std::vector<double>> return_;
  std::vector<std::vector<std::uint8_t>> out_;
};

}  // namespace tandem::rl
