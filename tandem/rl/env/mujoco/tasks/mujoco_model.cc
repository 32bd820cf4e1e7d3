#include "tandem/rl/env/mujoco/tasks/mujoco_model.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
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

// mjModel::signature is the same for models that differ in a number, such as the size of a geom.
Sha256::Digest digest_of(const MujocoLibrary& mujoco, const mjModel& model) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(mujoco.size_model(&model)));
  mujoco.save_model(&model, nullptr, bytes.data(), static_cast<mjtSize>(bytes.size()));
  Sha256 hash;
  hash.update(bytes);
  return hash.digest();
}

}  // namespace

// MuJoCo's compiler runs under the lock: two threads that ask for the same model read it once.
SharedModel shared_model(const std::string& name) {
  static Mutex reading;
  struct Known {
    std::weak_ptr<const mjModel> model;
    Sha256::Digest digest{};
  };
  static std::map<std::string, Known> models;
  const MujocoLibrary& mujoco = mujoco_library();
  const std::string file = mujoco_model_file(mujoco_places(), mujoco.file, name).string();
  const MutexLock lock(reading);
  Known& known = models[file];
  std::shared_ptr<const mjModel> model = known.model.lock();
  if (model == nullptr) {
    model = read_model(mujoco, file);
    known = {.model = model, .digest = digest_of(mujoco, *model)};
  }
  return {.model = std::move(model), .digest = known.digest};
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
