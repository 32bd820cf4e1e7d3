#include "tandem/rl/env/mujoco/tasks/mujoco_library.h"

#include <atomic>
#include <memory>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/library/shared_library.h"
#include "tandem/base/library/shared_object.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/mujoco_places.h"

namespace tandem::rl {
namespace {

// 4000001 is 4.0.1; before version 4, 3.3.7 was 337.
std::string version_text(int number) {
  const int base = number >= 1'000'000 ? 1000 : 10;
  return concat(number / base / base, ".", number / base % base, ".", number % base);
}

// MuJoCo's C code calls this below our calls. It would end the process otherwise; exceptions pass it, since it is
// compiled with unwind tables.
[[noreturn]] void fail_from_mujoco(const char* message) { throw EnvError(concat("MuJoCo: ", message)); }
void drop_warning(const char* /*message*/) {}

using Handler = void (*)(const char*);

void set_handler(SharedLibrary& library, const char* name, Handler ours) {
  auto* const handler = static_cast<Handler*>(library.find(name));
  if (handler != nullptr && *handler == nullptr) *handler = ours;
}

template <typename Function>
void find(SharedLibrary& library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(library.find(name));
  if (function == nullptr) missing += concat(missing.empty() ? "" : ", ", name);
}

void find_drawing(SharedLibrary& library, MujocoLibrary& its, std::string& missing) {
  find(library, "mjv_defaultOption", its.default_option, missing);
  find(library, "mjv_defaultCamera", its.default_camera, missing);
  find(library, "mjv_defaultFreeCamera", its.default_free_camera, missing);
  find(library, "mjv_defaultScene", its.default_scene, missing);
  find(library, "mjv_makeScene", its.make_scene, missing);
  find(library, "mjv_freeScene", its.free_scene, missing);
  find(library, "mjv_updateScene", its.update_scene, missing);
  find(library, "mjr_defaultContext", its.default_context, missing);
  find(library, "mjr_makeContext", its.make_context, missing);
  find(library, "mjr_freeContext", its.free_context, missing);
  find(library, "mjr_setBuffer", its.set_buffer, missing);
  find(library, "mjr_resizeOffscreen", its.resize_offscreen, missing);
  find(library, "mjr_render", its.render, missing);
  find(library, "mjr_readPixels", its.read_pixels, missing);
  find(library, "mjr_getError", its.gl_error, missing);
}

// The library in `file`; null, and a reason in `why`, when it cannot be used.
std::unique_ptr<MujocoLibrary> loaded(const std::string& file, std::string& why) {
  const bool is_path = file.find('/') != std::string::npos;
  const std::string fault = is_path ? fault_of_shared_object(file) : "";
  if (!fault.empty()) return why = concat(file, " ", fault), nullptr;
  SharedLibrary library(file);
  if (!library.why_not().empty()) return why = library.why_not(), nullptr;
  const auto version = reinterpret_cast<decltype(&::mj_version)>(library.find("mj_version"));
  if (version == nullptr) return why = concat(file, " has no mj_version()"), nullptr;
  if (version() != mjVERSION_HEADER)
    return why = concat(file, " is version ", version_text(version()), ", and this tandem was built for version ",
                        mujoco_version()),
           nullptr;
  auto its = std::make_unique<MujocoLibrary>();
  std::string missing;
  find(library, "mj_step", its->step, missing);
  find(library, "mj_forward", its->forward, missing);
  find(library, "mj_rnePostConstraint", its->rne_post_constraint, missing);
  find(library, "mj_resetData", its->reset_data, missing);
  find(library, "mj_makeData", its->make_data, missing);
  find(library, "mj_deleteData", its->delete_data, missing);
  find(library, "mj_loadXML", its->load_xml, missing);
  find(library, "mj_deleteModel", its->delete_model, missing);
  find(library, "mj_sizeModel", its->size_model, missing);
  find(library, "mj_saveModel", its->save_model, missing);
  find(library, "mj_name2id", its->name_to_id, missing);
  find(library, "mj_stateSize", its->state_size, missing);
  find(library, "mj_getState", its->get_state, missing);
  find(library, "mj_setState", its->set_state, missing);
  find_drawing(library, *its, missing);
  if (!missing.empty()) return why = concat(file, " lacks ", missing), nullptr;
  set_handler(library, "mju_user_error", fail_from_mujoco);
  set_handler(library, "mju_user_warning", drop_warning);
  its->file = file;
  return its;
}

std::unique_ptr<MujocoLibrary> found() {
  std::vector<std::string> reasons;
  for (const std::string& file : mujoco_library_files(mujoco_places(), mujoco_version())) {
    std::string why;
    if (auto library = loaded(file, why)) return library;
    reasons.push_back(std::move(why));
  }
  throw ConfigError(
      concat("MuJoCo ", mujoco_version(), " cannot be used: ", joined(reasons, {}, "; "), how_to_get_mujoco()));
}

}  // namespace

std::string mujoco_version() { return version_text(mjVERSION_HEADER); }

const MujocoLibrary& mujoco_library() {
  static Mutex loading;
  static std::atomic<const MujocoLibrary*> library{nullptr};
  if (const MujocoLibrary* its = library.load(std::memory_order_acquire)) return *its;
  const MutexLock lock(loading);
  if (library.load(std::memory_order_acquire) == nullptr)
    library.store(found().release(), std::memory_order_release);  // stays until the process ends, as its code does
  return *library.load(std::memory_order_acquire);
}

}  // namespace tandem::rl
