// rl/env/mujoco/tasks/gymnasium_tasks.h: the entries of Gymnasium's eleven MuJoCo tasks.
//
// Threads: all. Making the entries reads no model and loads no library; making groups and setting options does both.
#pragma once
#include <vector>

#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {

/// In the order of their names.
[[nodiscard]] std::vector<EnvEntry> gymnasium_tasks();

}  // namespace tandem::rl
