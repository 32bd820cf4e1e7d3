// rl/env/mujoco/mujoco_places.h: where MuJoCo's shared library and the models of its tasks are looked for.
//
// A program sets what its environment says before it makes environments; libraries do not read variables.
//
//   library   `library`, if it is set, and nowhere else; then the MuJoCo that Tandem was built with; then the package
//             `mujoco` of the Python environment `python`; then the name with its version, where the system's loader
//             looks
//   models    `models`, if it is set, and nowhere else; then the package `gymnasium` beside the library; then that of
//             the Python environment
//
// The current folder is no such place.
// Threads: all members from any thread. Nothing here loads a library. Functions block on the disk.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::rl {

/// What the user says; empty texts say nothing.
struct MujocoPlaces {
  /// The file libmujoco.so, or a folder with it: an installed `mujoco` package, an unpacked release, a virtual
  /// environment.
  std::string library = {};
  /// A folder with half_cheetah.xml and the others.
  std::string models = {};
  /// The root of an active Python environment.
  std::string python = {};
  /// What draws pictures, "egl" or "osmesa", and the number of EGL's device (tasks/gl_context.h).
  std::string opengl = {}, egl_device = {};
};

/// Holds for libraries and models that are loaded from now on. A library that was loaded stays.
void set_mujoco_places(MujocoPlaces places);
/// What was set last.
[[nodiscard]] MujocoPlaces mujoco_places();

/// The files to try for the library of a version ("4.0.1"), the best first. The last one is a name without a folder,
/// for the system's loader, unless `places.library` is set. Throws ConfigError when `places.library` is set and holds
/// no libmujoco.so.
[[nodiscard]] std::vector<std::string> mujoco_library_files(const MujocoPlaces& places, std::string_view version);

/// The file of a model. A name that begins with /, ./ or ../ is a path; one without a slash is that of a file in the
/// folder of models. `library` is the file that was loaded. Throws ConfigError, with the places that were looked at,
/// when there is no such file, and for any other name: a program makes paths whole by how they begin.
[[nodiscard]] std::filesystem::path mujoco_model_file(const MujocoPlaces& places, const std::string& library,
                                                      const std::string& name);

/// What to do where MuJoCo is missing: a sentence that follows a reason.
[[nodiscard]] std::string how_to_get_mujoco();

}  // namespace tandem::rl
