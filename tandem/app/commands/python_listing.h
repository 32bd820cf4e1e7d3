// app/commands/python_listing.h: what `tandem envs` says of environments in Python. Functions on values; threads: all.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/json_writer.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/python/python_list.h"

namespace tandem::app {

/// The kinds whose environments a Python steps, that Python, and what lists its environments. No Python is started, so
/// what it has is not known. `python`: as of python_of().
[[nodiscard]] std::string kinds_text(const std::vector<rl::EnvKind>& kinds,
                                     const std::optional<std::filesystem::path>& python);

/// The environments of a Python whose names begin with `name`, with the algorithms that settings are shipped for, and
/// where to find more. `python`: as the command was given it, which the commands that are shown repeat.
[[nodiscard]] std::string list_text(const std::string& name, const rl::PythonList& list,
                                    const std::optional<std::filesystem::path>& python);
/// The same as an object.
void write_list(JsonWriter& json, const rl::PythonList& list);

}  // namespace tandem::app
