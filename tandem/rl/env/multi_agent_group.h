// rl/env/multi_agent_group.h: N environments of several agents each, stepped together into arrays that the caller owns.
//
// MultiAgentGroup is for several agents what EnvGroup is for one. Each agent has arrays of its own, so that agents may
// differ in what they see and do, and so that the rows of one policy's agents can lie one behind the other.
//
// In a step those agents act whose `acts` is set: some of them, or all. An agent's own episode ends when the agent is
// terminated or truncated; it then takes no part until the environment's episode ends. That is when all agents'
// episodes have ended; the next episode begins in the same step.
//
// Threads: single-thread, as EnvGroup. No torch here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/multi_agent_spec.h"

namespace tandem::rl {

/// Where a group writes what one agent sees: row e of each array belongs to environment e.
struct AgentArrays {
  /// observation: written for every agent in the game, after the step that began an episode for all. final_observation:
  /// only in rows whose agent's episode ended. action_mask: only where the agent acts next. reward, terminated,
  /// truncated: always; zero for agents that are out of the game.
  EnvArrays env;
  /// [environments], 0 or 1: whether the agent chooses an action for the next step.
  std::uint8_t* acts = nullptr;
};

/// N environments of several agents. Calls come in the order reset() or load(), then any number of step(); both may
/// come again at any time.
class MultiAgentGroup {
 public:
  virtual ~MultiAgentGroup() = default;

  /// The spec of every environment in the group; agents are numbered as in it, everywhere.
  [[nodiscard]] virtual const MultiAgentSpec& spec() const = 0;
  /// Environments in the group.
  [[nodiscard]] virtual int size() const = 0;

  /// Starts a new episode in each environment; seeds as EnvGroup::reset(). Writes observation, action_mask and acts.
  /// `out`: one entry an agent, here and below. Throws EnvError.
  virtual void reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) = 0;

  /// One step of each environment. `actions`: one entry an agent, a row an environment; rows of agents that do not act
  /// are not looked at. Throws EnvError as EnvGroup::step(), and when no agent of an environment would act next.
  virtual void step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) = 0;

  /// can_save(), save() and load() are as in EnvGroup. load() writes observation, action_mask and acts.
  [[nodiscard]] virtual bool can_save() const = 0;
  [[nodiscard]] virtual std::vector<std::byte> save() const = 0;
  virtual void load(std::span<const std::byte> state, std::span<const AgentArrays> out) = 0;
};

}  // namespace tandem::rl
