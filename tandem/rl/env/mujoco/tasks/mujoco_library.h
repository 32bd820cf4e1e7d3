// rl/env/mujoco/tasks/mujoco_library.h: MuJoCo's functions, found in a shared library that is loaded when the first
// task is made. So a program that was built with MuJoCo's headers starts on a machine without its library.
//
//   const MujocoLibrary& mujoco = mujoco_library();
//   mujoco.step(&model, &data);
//
// Members have the names of MuJoCo's functions less the prefix mj_, mjv_ or mjr_. Only functions that are used here are
// listed; others are added with a line.
//
// The library's own handlers for errors and warnings are replaced, unless the program has set some: an error of
// MuJoCo's would end the process and becomes an EnvError; warnings would be printed and written to MUJOCO_LOG.TXT in
// the current folder, and are dropped, as mjData counts them.
//
// Threads: all; the first call loads the library and blocks on the disk. It is never unloaded.
#pragma once
#include <mujoco/mujoco.h>

#include <string>

namespace tandem::rl {

/// Typed addresses of the library's functions; none is null.
struct MujocoLibrary {
  decltype(&::mj_step) step = nullptr;
  decltype(&::mj_forward) forward = nullptr;
  decltype(&::mj_rnePostConstraint) rne_post_constraint = nullptr;
  decltype(&::mj_resetData) reset_data = nullptr;
  decltype(&::mj_makeData) make_data = nullptr;
  decltype(&::mj_deleteData) delete_data = nullptr;
  decltype(&::mj_loadXML) load_xml = nullptr;
  decltype(&::mj_deleteModel) delete_model = nullptr;
  decltype(&::mj_sizeModel) size_model = nullptr;
  decltype(&::mj_saveModel) save_model = nullptr;
  decltype(&::mj_name2id) name_to_id = nullptr;
  decltype(&::mj_stateSize) state_size = nullptr;
  decltype(&::mj_getState) get_state = nullptr;
  decltype(&::mj_setState) set_state = nullptr;
  // Pictures (mujoco_painter.h). Those of mjr_ need a context of OpenGL that was entered (gl_context.h).
  decltype(&::mjv_defaultOption) default_option = nullptr;
  decltype(&::mjv_defaultCamera) default_camera = nullptr;
  decltype(&::mjv_defaultFreeCamera) default_free_camera = nullptr;
  decltype(&::mjv_defaultScene) default_scene = nullptr;
  decltype(&::mjv_makeScene) make_scene = nullptr;
  decltype(&::mjv_freeScene) free_scene = nullptr;
  decltype(&::mjv_updateScene) update_scene = nullptr;
  decltype(&::mjr_defaultContext) default_context = nullptr;
  decltype(&::mjr_makeContext) make_context = nullptr;
  decltype(&::mjr_freeContext) free_context = nullptr;
  decltype(&::mjr_setBuffer) set_buffer = nullptr;
  decltype(&::mjr_resizeOffscreen) resize_offscreen = nullptr;
  decltype(&::mjr_render) render = nullptr;
  decltype(&::mjr_readPixels) read_pixels = nullptr;
  decltype(&::mjr_getError) gl_error = nullptr;
  /// The file that was loaded, as it was found (mujoco_places.h).
  std::string file = {};
};

/// The library. Throws ConfigError with the places that were looked at, and what to install, when there is none, and
/// for one of another version than the headers that Tandem was built with: structures differ between versions. A later
/// call looks again.
[[nodiscard]] const MujocoLibrary& mujoco_library();

/// The version of the headers: "4.0.1".
[[nodiscard]] std::string mujoco_version();

}  // namespace tandem::rl
