// rl/env/python/python_envs.h: environments of Gymnasium, which a Python of the user's steps in processes of their own:
//
//   EnvRegistry registry = EnvRegistry::native();
//   for (EnvKind& kind : python_kinds({})) registry.add_kind(std::move(kind));
//   registry.set_options("gymnasium:CartPole-v1", {{"python.interpreter", "/usr/bin/python3"}});
//   std::unique_ptr<EnvGroup> group = registry.make("gymnasium:CartPole-v1", 64);
//
// The names are gymnasium:ID, gymnasium:MODULE:ID, whose module is imported first, and ALE/GAME-v5, which is ale_py's
// vector environment with what is usual for Atari, whatever that package's defaults are (atari_options()). Options are
// the keywords of gymnasium.make(): numbers, true, false, null and JSON as such, all else as text. Six belong to the
// bridge: python.interpreter, python.wrappers (a list of "module:Class", put around each environment in this order),
// python.vectorization (auto, loop, vector), python.metrics (names of numbers in info, or mean:NAME), and the limits
// kDeadlineOption and kMemoryOption.
//
// pettingzoo:MODULE is the parallel_env() of a module, with several agents (python_agents.h); options are its keywords.
//
// A group is an IsolatedEnvs (isolated/isolated_envs.h), whose worker is the interpreter. Observations, rewards and
// ends are those of Python, and so are the episodes of a seed: reset(seed=...) first, reset() later. The states of such
// environments cannot be saved.
//
// Threads: all; a first look at an environment starts a worker and waits for it, later ones find what it said.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/isolated/worker_link.h"

namespace tandem::rl {

/// The option that names the interpreter; it is python3 where it is not set.
inline constexpr const char* kInterpreterOption = "python.interpreter";
/// Those that set IsolationOptions::deadline, in seconds, and most_memory, in 2^20 bytes, of all workers: also of the
/// one that is asked for the spec.
inline constexpr const char* kDeadlineOption = "python.deadline_seconds";
inline constexpr const char* kMemoryOption = "python.memory_mb";

/// Whether the name is one of these environments'.
[[nodiscard]] bool is_python_env(std::string_view id);

/// The options of ALE/GAME-v5 that have a value where nobody sets them.
[[nodiscard]] const std::vector<EnvOption>& atari_options();

/// Groups of several agents whose workers `isolation` describes (python_isolation()). `workers` and `budget`: as of
/// in_workers().
[[nodiscard]] std::unique_ptr<MultiAgentGroup> python_agents(const MultiAgentSpec& spec, int count, int workers,
                                                             const IsolationOptions& isolation,
                                                             const std::shared_ptr<RestartBudget>& budget);

/// Whether the option render_mode=rgb_array has such an environment draw itself. Those that one object steps draw no
/// pictures.
[[nodiscard]] bool draws_when_asked(std::string_view id);

/// Whether one worker uses several cores for its environments.
[[nodiscard]] bool steps_by_threads(std::string_view id);

/// `isolation` with what makes a worker one of Python: its command, its program, and the task.
[[nodiscard]] IsolationOptions python_isolation(IsolationOptions isolation, const std::string& id,
                                                const EnvOptionTexts& options);

/// What a worker says of an environment (python_spec.h), or of a name that stands for several (python_list.h): JSON.
/// Starts one and waits for it, at most for isolation.deadline and kStartPatience. Throws ConfigError where the worker
/// refuses, and where it is lost.
[[nodiscard]] std::string told_by_worker(const std::string& name, const EnvOptionTexts& options,
                                         const IsolationOptions& isolation);

/// The kinds for a registry. `isolation`: what workers have beside their task, where a registry makes groups of them,
/// and when they are asked for specs.
[[nodiscard]] std::vector<EnvKind> python_kinds(const IsolationOptions& isolation);

}  // namespace tandem::rl
