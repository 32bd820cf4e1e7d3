// rl/env/mujoco/tasks/model_task.h: `--env mujoco`: any model of MuJoCo's as an environment without a line of C++. Its
// reward, and perhaps its end, are sensors of the model.
//
//   tandem train --env mujoco --env-option model=./crawler.xml --env-option reward=forward
//
//   <sensor><framelinvel name="forward" objtype="body" objname="torso"/></sensor>
//
// A task whose reward no sensor measures is a class on MujocoTask (mujoco_task.h).
// Threads: all.
#pragma once
#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {

/// The entry named "mujoco". What it shows and takes is known when it is given a model; making it without one throws
/// ConfigError.
[[nodiscard]] EnvEntry model_entry();

}  // namespace tandem::rl
