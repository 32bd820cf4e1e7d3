// rl/env/mujoco/tasks/mujoco_model.h: models of MuJoCo, each loaded once for all environments that use it, and the
// state of one simulation.
//
// Threads: shared_model() from any thread; a model is not changed after it was loaded, so any number of threads may
// step simulations of it, each its own.
#pragma once
#include <memory>
#include <string>

#include "tandem/base/digest/sha256.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_library.h"

namespace tandem::rl {

/// A model, and the SHA-256 of all that MuJoCo has made of its file and of the files that this one names: numbers,
/// names and meshes. Other files that make the same model have the same.
struct SharedModel {
  std::shared_ptr<const mjModel> model;
  Sha256::Digest digest;
};

/// The model of a file, which is read again only when nobody holds it any more. Names are those of
/// mujoco_model_file(). Throws ConfigError when MuJoCo is missing, and when it cannot read the file, with its words.
[[nodiscard]] SharedModel shared_model(const std::string& name);

/// The least that a task's code takes for granted of a model.
struct ModelNeeds {
  int positions = 0, speeds = 0;  // nq and nv
  int actuators = 0, sites = 0;   // nu and nsite
};
/// Throws ConfigError, with what the task needs and the model has, when that is less. `task` and `name` of the model
/// are for the message.
void require_parts(const mjModel& model, const ModelNeeds& needs, const std::string& task, const std::string& name);

/// The state of a simulation, with room for everything that is computed from it.
struct MujocoDataDeleter {
  void operator()(mjData* data) const { mujoco_library().delete_data(data); }
};
using MujocoData = std::unique_ptr<mjData, MujocoDataDeleter>;
/// Throws EnvError when there is no memory for it.
[[nodiscard]] MujocoData new_data(const mjModel& model);

/// The number of the body that is called so, or has that number; throws ConfigError, with the names of all bodies, when
/// there is none.
[[nodiscard]] int body_of(const mjModel& model, const std::string& name);

}  // namespace tandem::rl
