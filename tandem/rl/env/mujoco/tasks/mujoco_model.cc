#include "tandem/rl/env/mujoco/tasks/mujoco_model.h"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/mujoco_places.h"

namespace tandem::rl {
namespace {

std::shared_ptr<const mjModel> read_model(const MujocoLibrary& mujoco, const std::string& file) {
  std::array<char, 1024> reason{};
  const mjModel* model = mujoco.load_xml(file.c_str(), nullptr, reason.data(), static_cast<int>(reason.size()));
  if (model == nullptr) throw ConfigError(concat("MuJoCo cannot read the model ", file, ": ", reason.data()));
  return {model, [](const mjModel* its) { mujoco_library().delete_model(const_cast<mjModel*>(its)); }};
}

}  // namespace

// MuJoCo's compiler runs under the lock: two threads that ask for the same model read it once.
std::shared_ptr<const mjModel> shared_model(const std::string& name) {
  static Mutex reading;
  static std::map<std::string, std::weak_ptr<const mjModel>> models;
  const MujocoLibrary& mujoco = mujoco_library();
  const std::string file = mujoco_model_file(mujoco_places(), mujoco.file, name).string();
  const MutexLock lock(reading);
  std::weak_ptr<const mjModel>& known = models[file];
  std::shared_ptr<const mjModel> model = known.lock();
  if (model == nullptr) {
    model = read_model(mujoco, file);
    known = model;
  }
  return model;
}

void require_parts(const mjModel& model, const ModelNeeds& needs, const std::string& task, const std::string& name) {
  struct Part {
    const char* what;
    std::int64_t has, needed;
  };
  std::string missing;
  for (const Part& part :
       {Part{"positions (nq)", model.nq, needs.positions}, Part{"speeds (nv)", model.nv, needs.speeds},
        Part{"actuators (nu)", model.nu, needs.actuators}, Part{"sites (nsite)", model.nsite, needs.sites}}) {
    if (part.has < part.needed)
      missing += concat(missing.empty() ? "" : ", ", part.has, " ", part.what, " where it needs ", part.needed);
  }
  if (missing.empty()) return;
  throw ConfigError(concat("the model ", name, " does not fit ", task, ": it has ", missing,
                           "; take a model with the joints of the task's own, or --env mujoco for any model"));
}

MujocoData new_data(const mjModel& model) {
  MujocoData data(mujoco_library().make_data(&model));
  if (data == nullptr) throw EnvError("MuJoCo has no memory for another simulation");
  return data;
}

int body_of(const mjModel& model, const std::string& name) {
  const auto bodies = static_cast<int>(model.nbody);
  if (const auto number = parse_number<int>(name); number && *number >= 0 && *number < bodies) return *number;
  if (const int body = mujoco_library().name_to_id(&model, mjOBJ_BODY, name.c_str()); body >= 0) return body;
  std::vector<std::string> names;
  for (int body = 0; body < bodies; ++body) names.emplace_back(model.names + model.name_bodyadr[body]);
  throw ConfigError(concat("the model has no body '", name, "'; it has ", joined(names)));
}

}  // namespace tandem::rl
