// app/config/presets.h: the settings that the program brings along for the environments it knows.
//
// They are the files configs/presets/<algorithm>/<environment>.yaml, compiled into the program. _defaults.yaml is what
// the algorithm has other than the options' own defaults, for all environments; _unknown.yaml lies above it for
// environments that have no file of their own (chosen by the study of bench/defaults, decision 51).
//
// Threads: free functions over constant data. A preset lies above the defaults and below a run's record, file and flags
// (Layer in value_format.h).
#pragma once
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
/// What there is for all environments whose names begin with "ALE/".
inline constexpr std::string_view kAtari = "_atari";

/// Null when nothing is shipped for that pair.
/// The pointer stays good for the life of the process.
[[nodiscard]] inline const Preset* find_preset(std::string_view algo, std::string_view env) {
  for (const Preset& preset : presets()) {
    if (preset.algo == algo && preset.env == env) return &preset;
  }
  return env.starts_with("ALE/") ? find_preset(algo, kAtari) : nullptr;
}

}  // namespace tandem::app
