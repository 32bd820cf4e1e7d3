// app/config/presets.h: the settings that the program brings along for the environments it knows.
//
// They are the files configs/presets/<algorithm>/<task>.yaml, compiled into the program. _defaults.yaml is what the
// algorithm has other than the options' own defaults, for all environments; _unknown.yaml lies above it for
// environments that have no file of their own (chosen by the study of bench/defaults, decision 51); _atari.yaml and
// _minigrid.yaml are those of families (kTaskFamilies).
//
// Threads: free functions over constant data. A preset lies above the defaults and below a run's record, file and flags
// (Layer in value_format.h).
#pragma once
#include <array>
#include <span>
#include <string_view>

namespace tandem::app {

/// All four view data of the program, which never goes away.
struct Preset {
  std::string_view algo, env;
  std::string_view file;  // "shipped settings ppo/CartPole-v1", for messages
  std::string_view text;  // YAML
};

/// All of them, by algorithm and environment.
/// Defined in a source that the build makes from the files.
[[nodiscard]] std::span<const Preset> presets();

/// In the place of an environment: what the algorithm has for all, and for those that nothing is shipped for.
inline constexpr std::string_view kDefaultsOfAlgorithm = "_defaults", kUnknownEnvironment = "_unknown";

/// The name of the task: of gymnasium:ID and gymnasium:MODULE:ID the ID, so that one of a Python has the settings of
/// Tandem's own task of the same name.
[[nodiscard]] constexpr std::string_view task_of(std::string_view env) { return env.substr(env.rfind(':') + 1); }

/// A preset for all tasks whose names begin so.
struct TaskFamily {
  std::string_view begin, preset;
};
inline constexpr std::array<TaskFamily, 2> kTaskFamilies{{{"ALE/", "_atari"}, {"MiniGrid-", "_minigrid"}}};

/// Null when nothing is shipped for that pair. A preset of the task's own wins over one of its family.
/// The pointer stays good for the life of the process.
[[nodiscard]] inline const Preset* find_preset(std::string_view algo, std::string_view env) {
  const auto named = [algo](std::string_view name) -> const Preset* {
    for (const Preset& preset : presets()) {
      if (preset.algo == algo && preset.env == name) return &preset;
    }
    return nullptr;
  };
  const std::string_view task = task_of(env);
  if (const Preset* own = named(task)) return own;
  for (const TaskFamily& family : kTaskFamilies) {
    if (task.starts_with(family.begin)) return named(family.preset);
  }
  return nullptr;
}

}  // namespace tandem::app
