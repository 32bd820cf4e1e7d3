// rl/env/plugin_library.h: loads a shared object and asks it for its environments.
#pragma once
#include <filesystem>

#include "tandem/rl/env/plugin.h"

namespace tandem::rl {

/// The environments of the plugin at `path`, with the path as their origin. The shared object stays loaded until the
/// process ends. Runs code of the plugin. Throws ConfigError naming the path and what is wrong with it (plugin.h).
[[nodiscard]] PluginEntries load_plugin_library(const std::filesystem::path& path);

}  // namespace tandem::rl
