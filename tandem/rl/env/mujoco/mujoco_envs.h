// rl/env/mujoco/mujoco_envs.h: the environments that MuJoCo simulates, as far as this build has them.
//
// The tasks are compiled where MuJoCo's headers were found (cmake/TandemMujoco.cmake). Its library is loaded when the
// first of them is made (tasks/mujoco_library.h).
// Threads: all.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {

/// The environment of any model (tasks/model_task.h), and Gymnasium's tasks, whether this build has them or not.
[[nodiscard]] const std::vector<std::string>& mujoco_names();
/// Their entries; none in a build without MuJoCo's headers.
[[nodiscard]] std::vector<EnvEntry> mujoco_entries();

/// Why these tasks cannot be made, and what to do, for listings; empty where they can. Loads the library.
[[nodiscard]] std::string why_no_mujoco();
/// The version and the file of the library, for listings: "MuJoCo 4.0.1 (/opt/mujoco/lib/libmujoco.so.4.0.1)"; empty
/// where why_no_mujoco() is not. Loads the library.
[[nodiscard]] std::string mujoco_there_is();
/// Why a name is not in the registry: empty unless it is one of mujoco_names(), in a build without their entries.
[[nodiscard]] std::string why_unknown(std::string_view id);

}  // namespace tandem::rl
