// rl/env/check/play.h: plays a group of environments with random actions and remembers what came of it.
//
// Equal seeds give equal actions, so two plays of one environment must be equal bit by bit. A check compares two plays
// that differ in one thing (another order of environments, another folder, another value of one part of the action) by
// the digests of what they wrote.
//
// Threads: single-thread. Owns the group and all arrays. Errors: those of the group pass unchanged.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/numpy_random.h"

namespace tandem::rl {

/// One number of an action: the component of a Box or the choice of a discrete space.
struct ActionPart {
  std::size_t agent = 0, part = 0;
};

/// How a play chooses its actions: evenly over the space, among the allowed options.
struct PlayOptions {
  std::uint64_t seed = 1;
  /// Draws this part from a stream of its own, while all others stay as they are without it.
  std::optional<ActionPart> varied = {};
  /// Takes this end of every bound instead of drawing: 0 for the lowest, 1 for the highest.
  std::optional<double> end = {};
  /// Draws the actions of all environments but this one from a stream of their own, so that a check sees whether they
  /// affect it.
  std::optional<std::size_t> kept = {};
};

/// A group with memory for its arrays, and the random actions that it is given.
class Play {
 public:
  /// Takes no step: the first call is reset() or load().
  Play(std::unique_ptr<MultiAgentGroup> group, const PlayOptions& options);

  /// Begins anew, with the first actions of `options` again. One seed an environment. Throws EnvError.
  void reset(std::span<const std::uint64_t> seeds);
  /// Draws an action for each agent of each environment and takes a step. Throws EnvError.
  void step();
  /// The next actions are the first of `options` again; rewards and ends of the last step are forgotten.
  void restart_actions();
  /// Goes to a state of MultiAgentGroup::save(); the next actions are the first of `options`.
  void load(std::span<const std::byte> state);

  /// The group that is played, its spec and how many environments it has.
  [[nodiscard]] const MultiAgentGroup& group() const { return *group_; }
  [[nodiscard]] const MultiAgentSpec& spec() const { return group_->spec(); }
  [[nodiscard]] std::size_t environments() const { return static_cast<std::size_t>(group_->size()); }
  /// What the last call wrote, and what the agent did in the last step.
  [[nodiscard]] const AgentArrays& arrays(std::size_t agent) const { return arrays_[agent]; }
  [[nodiscard]] const EnvActions& actions(std::size_t agent) const { return actions_[agent]; }
  /// A number of 64 bits from all that the last call wrote for an environment. Equal results have equal ones; others
  /// have others, but for a chance of 2^-64.
  [[nodiscard]] std::uint64_t digest(std::size_t environment) const;

 private:
  // The memory of one agent's arrays, a row an environment.
  struct Memory {
    std::vector<std::vector<std::byte>> observation, final_observation;
    std::vector<std::uint8_t> mask, terminated, truncated, acts;
    std::vector<double> reward, metrics;
    std::vector<std::int64_t> discrete;
    std::vector<float> box;
  };

  void make_room(const AgentSpec& agent);
  // Draws the actions of one agent, for all environments.
  void draw(std::size_t agent);
  // A number in [0, 1), or the end that is wanted.
  [[nodiscard]] double drawn(std::size_t environment, std::size_t agent, std::size_t part);

  std::unique_ptr<MultiAgentGroup> group_;
  PlayOptions options_;
  // The stream of all parts, and that of the varied one.
  NumpyGenerator random_, varied_;
  // By agent: memory, and the arrays that point into it.
  std::vector<Memory> memory_;
  std::vector<AgentArrays> arrays_;
  std::vector<EnvActions> actions_;
};

}  // namespace tandem::rl
