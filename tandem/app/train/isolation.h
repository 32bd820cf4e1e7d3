// app/train/isolation.h: isolate_envs and its options as what the library isolates env groups by.
//
// Plain functions; they start nothing, but raise the limit of open files to what workers need. Errors: RunError where
// the system does not allow so many.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tandem/app/config/train_options.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/isolated/worker_link.h"
#include "tandem/rl/env/python/python_list.h"
#include "tandem/rl/env/restarting_envs.h"

namespace tandem::app {

/// `environments` and those that a Python steps, whose workers print as those of isolation_of() do.
[[nodiscard]] rl::EnvRegistry with_python_kinds(rl::EnvRegistry environments);

/// Which environments a Python has whose names begin so (rl::is_python_list()). `python`: as of python_of(). Waits for
/// that Python, at most rl::kStartPatience. Throws ConfigError where it cannot say.
[[nodiscard]] rl::PythonList list_python(const std::string& name, const std::optional<std::filesystem::path>& python);

/// Nothing unless the options ask for it, or their environment is one of Python. What a worker prints goes to standard
/// error, each line with its process.
[[nodiscard]] std::optional<rl::IsolationOptions> isolation_of(const TrainOptions& options, int ranks);

/// The processes of each env group: of a Python environment as many as the options say, or one for each core that the
/// groups of all ranks leave (Algorithm::env_groups_of_shard()). One of others, whose states are saved.
[[nodiscard]] int workers_of_group(const TrainOptions& options);

using MakeEnvGroup = std::function<std::unique_ptr<rl::EnvGroup>(int count)>;

/// Makes env groups of `workers` processes each, with the wrappers of the environment: a worker of ours puts them
/// around its environments, and around those of a Python they are put here. `budget`: null where none are restarted.
[[nodiscard]] MakeEnvGroup isolated_maker(const rl::EnvRegistry& environments, const rl::IsolationOptions& isolation,
                                          int workers, const std::shared_ptr<rl::RestartBudget>& budget);

/// `environments`, in which the groups of the options' environment are isolated where the options ask for it. They are
/// not restarted when they fail: for evaluations.
[[nodiscard]] rl::EnvRegistry isolated_where_asked(const rl::EnvRegistry& environments, const TrainOptions& options,
                                                   int ranks);

}  // namespace tandem::app
