// app/train/python_choice.h: which Python steps the environments of gymnasium:ID and of its kin
// (rl/env/python/python_envs.h).
//
// Threads: the main one; the process's environment is read.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/config/train_options.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// The interpreter that `named` names: a path, which is made absolute, or a word that is looked up in PATH. Nothing:
/// that of the active virtual environment, else python3 in PATH. Throws ConfigError where there is none.
[[nodiscard]] std::filesystem::path python_of(const std::optional<std::filesystem::path>& named);

/// The texts of the environment's options, of a Python environment with its interpreter. Throws ConfigError as
/// option_texts() and python_of() do, and for one among `items` that another option sets.
[[nodiscard]] rl::EnvOptionTexts env_option_texts(const std::string& env, const std::vector<std::string>& items,
                                                  const std::optional<std::filesystem::path>& python);
/// Those of a run: of a Python environment also with the limits that its workers keep to.
[[nodiscard]] rl::EnvOptionTexts env_option_texts(const TrainOptions& options);

}  // namespace tandem::app
