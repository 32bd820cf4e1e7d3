// rl/env/env_group.h: N environments stepped together into arrays that the caller owns.
//
// This is all that the runtime knows of environments: an EnvGroup of one agent each, or a MultiAgentGroup of several. A
// user's struct becomes a group by EnvGroupOf (env_adapter.h) or MultiAgentGroupOf (multi_agent_adapter.h); a simulator
// that steps many environments itself implements a group directly.
//
// Threads: single-thread; a group is stepped by the replica that owns it, never by two threads at once.
// No torch here: simulators and plugins compile in a second.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/spec.h"

namespace tandem::rl {

class Canvas;  // canvas.h

/// Where a group writes. Row e of every array belongs to environment e, and a row of leaf l has
/// spec.observation[l].bytes() bytes. The caller owns all memory, keeps it alive during the call and aligns each array
/// for its elements.
struct EnvArrays {
  /// By leaf: the observation to act on next. Where an episode ended it is already the first of the new episode.
  std::vector<std::byte*> observation;
  /// By leaf: the last observation of an episode, written only in rows whose episode ended. Empty: not wanted.
  std::vector<std::byte*> final_observation;
  /// [environments, mask_elements()]: 1 = allowed, 0 = not; null unless spec.has_action_mask.
  std::uint8_t* action_mask = nullptr;
  /// [environments]: the reward of the step, not of the episode.
  double* reward = nullptr;
  /// [environments], 0 or 1: the task itself ended, so that nothing more can be earned.
  std::uint8_t* terminated = nullptr;
  /// [environments], 0 or 1: the episode was cut short, by its time limit or by the environment.
  std::uint8_t* truncated = nullptr;
  /// [environments, spec.metrics.size()]: the metrics of an episode, written only in rows whose episode ended. A NaN
  /// stands for a value that is not known. Null: not wanted. Environments of several agents write to the arrays of
  /// agent 0, when the episode of all has ended.
  double* metrics = nullptr;
};

/// Actions for one step, a row for each environment: exactly one of the two is non-null.
struct EnvActions {
  /// [environments, action_elements()], for Discrete and MultiDiscrete.
  const std::int64_t* discrete = nullptr;
  /// [environments, action_elements()], for Box. The caller has clipped them to the bounds.
  const float* box = nullptr;
};

/// N environments of one agent. Calls come in the order reset() or load(), then any number of step(); both may come
/// again at any time.
class EnvGroup {
 public:
  virtual ~EnvGroup() = default;

  /// The spec of every environment in the group; it does not change.
  [[nodiscard]] virtual const Spec& spec() const = 0;
  /// Environments in the group.
  [[nodiscard]] virtual int size() const = 0;

  /// Starts a new episode in each environment. `seeds` has size() entries, one an environment, chosen by the caller.
  /// The runtime derives them from the run's seed and the environment's number in the whole run, so that they do not
  /// depend on how environments are grouped. Equal seeds give equal runs of episodes: the episodes that autoreset
  /// starts later draw from the same generator, as they do after gymnasium's `reset(seed=...)` followed by `reset()`.
  /// Writes `observation` and `action_mask` only. Throws EnvError.
  virtual void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) = 0;

  /// One step of each environment. An environment whose episode ends is reset at once (autoreset in the same step):
  /// its last observation goes to `final_observation`, the first of the new episode to `observation`.
  /// Both flags may be set: a task can end on the last step that its time limit allows.
  /// Throws EnvError when an environment throws, returns a value that is not finite or an observation of another size,
  /// or is given an action outside its space (a Box action: one that is not finite). The group can then be destroyed,
  /// reset or loaded; stepping it on is undefined.
  virtual void step(const EnvActions& actions, const EnvArrays& out) = 0;

  /// Curricula follow it: laws such as linear(5, 9.8) of env_options.h.
  /// The share of the run's steps that are made, from 0 to 1: told before a rollout, for episodes that begin from then
  /// on. A group without options that change over the run has no use for it.
  virtual void set_progress(double /*share*/) {}

  /// Whether environments that fail are made anew within the group (RestartingEnvs). Such groups and others cannot read
  /// what the other kind saves.
  [[nodiscard]] virtual bool restarts() const { return false; }

  /// Whether save() and load() are exact. Where they are not, a resumed run starts new episodes and says so.
  [[nodiscard]] virtual bool can_save() const = 0;
  /// The whole state of every environment, random streams and elapsed steps included, for a checkpoint. Throws EnvError
  /// if !can_save().
  [[nodiscard]] virtual std::vector<std::byte> save() const = 0;
  /// Goes back to a saved state and writes its `observation` and `action_mask`. Throws CheckpointError on bytes that it
  /// cannot read, such as those of another environment or of another number of environments; the group can then be
  /// destroyed, reset or loaded.
  virtual void load(std::span<const std::byte> state, const EnvArrays& out) = 0;

  /// Whether environments draw themselves. Where they do not, there are no videos of them.
  [[nodiscard]] virtual bool can_render() const { return false; }
  /// Draws environment `env`, below size(), as it is after the last call. Changes nothing. Throws EnvError when drawing
  /// fails, and unless can_render().
  virtual void render(int /*env*/, Canvas& /*canvas*/) const {
    throw EnvError(spec().id + ": its environments draw no pictures");
  }
  /// From now on step() calls `at_end` with each environment whose episode has just ended, before its next one begins
  /// in its place: so that render() shows the last moment. The calls come within step(), one environment after the
  /// other. `at_end` may call render(), and nothing else of
  /// the group. An empty function ends the watch.
  virtual void watch_ends(std::function<void(int env)> /*at_end*/) {}  // NOLINT(performance-unnecessary-value-param)
};

/// Where a group writes what one agent sees: row e of each array belongs to environment e.
struct AgentArrays {
  /// observation: written for every agent in the game, after the step that began an episode for all. final_observation:
  /// only in rows whose agent's episode ended. action_mask: only where the agent acts next. reward, terminated,
  /// truncated: always; zero for agents that are out of the game.
  EnvArrays env;
  /// [environments], 0 or 1: whether the agent chooses an action for the next step.
  std::uint8_t* acts = nullptr;
};

/// N environments of several agents. Calls come as in EnvGroup.
///
/// Each agent has arrays of its own, so that agents may differ in what they see and do, and so that the rows of one
/// policy's agents can lie one behind the other.
///
/// In a step those agents act whose `acts` is set: some of them, or all. An agent's own episode ends when the agent is
/// terminated or truncated; it then takes no part until the environment's episode ends. That is when all agents'
/// episodes have ended; the next episode begins in the same step.
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

  /// set_progress(), can_save(), save() and load() are as in EnvGroup. load() writes observation, action_mask and acts.
  virtual void set_progress(double /*share*/) {}
  [[nodiscard]] virtual bool can_save() const = 0;
  [[nodiscard]] virtual std::vector<std::byte> save() const = 0;
  virtual void load(std::span<const std::byte> state, std::span<const AgentArrays> out) = 0;

  /// The three are as in EnvGroup; an environment's episode ends when those of all its agents have.
  [[nodiscard]] virtual bool can_render() const { return false; }
  virtual void render(int /*env*/, Canvas& /*canvas*/) const {
    throw EnvError(spec().id + ": its environments draw no pictures");
  }
  virtual void watch_ends(std::function<void(int env)> /*at_end*/) {}  // NOLINT(performance-unnecessary-value-param)
};

}  // namespace tandem::rl
