#include "tandem/rl/env/mujoco/mujoco_places.h"

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

namespace fs = std::filesystem;

// The folder of the `mujoco` package that Tandem was built with (cmake/TandemMujoco.cmake).
#ifdef TANDEM_MUJOCO_BUILT_WITH
constexpr const char* kBuiltWith = TANDEM_MUJOCO_BUILT_WITH;
#else
constexpr const char* kBuiltWith = "";
#endif

struct Said {
  Mutex mutex;
  MujocoPlaces places TANDEM_GUARDED_BY(mutex);
};
Said& said() {
  static Said it;
  return it;
}

// The entries of a folder whose names begin so, in the order of their names; none where there is no such folder.
std::vector<fs::path> entries(const fs::path& folder, std::string_view beginning) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(beginning)) found.push_back(it->path());
  }
  std::ranges::sort(found);
  return found;
}

// lib/python3.11/site-packages and the like, of a Python environment.
std::vector<fs::path> package_folders(const std::string& python) {
  if (python.empty()) return {};
  std::vector<fs::path> folders;
  for (const fs::path& version : entries(fs::path(python) / "lib", "python3"))
    folders.push_back(version / "site-packages");
  return folders;
}

// Files named libmujoco.so... in a folder that may be a package, a release or a Python environment. The one of this
// version comes first.
std::vector<std::string> libraries_in(const fs::path& folder, std::string_view version) {
  std::vector<fs::path> folders{folder, folder / "lib", folder / "mujoco"};
  for (const fs::path& packages : package_folders(folder.string())) folders.push_back(packages / "mujoco");
  std::vector<std::string> files;
  for (const fs::path& each : folders) {
    for (const fs::path& file : entries(each, "libmujoco.so")) files.push_back(file.string());
  }
  std::stable_partition(files.begin(), files.end(), [&](const std::string& file) { return file.ends_with(version); });
  return files;
}

}  // namespace

void set_mujoco_places(MujocoPlaces places) {
  Said& its = said();
  const MutexLock lock(its.mutex);
  its.places = std::move(places);
}

MujocoPlaces mujoco_places() {
  Said& its = said();
  const MutexLock lock(its.mutex);
  return its.places;
}

std::vector<std::string> mujoco_library_files(const MujocoPlaces& places, std::string_view version) {
  std::error_code error;
  if (!places.library.empty()) {
    const fs::path named = fs::absolute(places.library, error);
    if (fs::is_regular_file(named, error)) return {named.string()};
    const std::vector<std::string> files = libraries_in(named, version);
    if (files.empty())
      throw ConfigError(
          concat("TANDEM_MUJOCO=", places.library, " is no libmujoco.so and no folder with one", how_to_get_mujoco()));
    return {files.front()};
  }
  const std::string name = concat("libmujoco.so.", version);
  std::vector<fs::path> folders;
  if (*kBuiltWith != '\0') folders.insert(folders.end(), {fs::path(kBuiltWith), fs::path(kBuiltWith) / "lib"});
  for (const fs::path& packages : package_folders(places.python)) folders.push_back(packages / "mujoco");
  std::vector<std::string> files;
  for (const fs::path& folder : folders) {
    if (fs::is_regular_file(folder / name, error)) files.push_back((folder / name).string());
  }
  files.push_back(name);
  return files;
}

fs::path mujoco_model_file(const MujocoPlaces& places, const std::string& library, const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos) {
    if (!name.starts_with('/') && !name.starts_with("./") && !name.starts_with("../"))
      throw ConfigError(concat("the model '", name, "' is a path that does not say where it begins: write ./", name,
                               ", which a run records as a whole path, or begin with /"));
    if (fs::is_regular_file(name, error)) return fs::absolute(name, error);
    throw ConfigError(concat("there is no model '", name, "' (looked at ", fs::absolute(name, error).string(),
                             "); a name without a slash is one of gymnasium's models"));
  }
  std::vector<fs::path> folders;
  if (!places.models.empty()) {
    folders = {places.models};
  } else {
    const fs::path assets = fs::path("gymnasium") / "envs" / "mujoco" / "assets";
    // site-packages/mujoco/libmujoco.so has its neighbours in site-packages.
    if (library.find('/') != std::string::npos)
      folders.push_back(fs::path(library).parent_path().parent_path() / assets);
    if (*kBuiltWith != '\0') folders.push_back(fs::path(kBuiltWith).parent_path() / assets);
    for (const fs::path& packages : package_folders(places.python)) folders.push_back(packages / assets);
  }
  for (const fs::path& folder : folders) {
    if (fs::is_regular_file(folder / name, error)) return folder / name;
  }
  throw ConfigError(concat(
      "the model '", name, "' was not found (looked in: ",
      folders.empty() ? "no folder" : joined(folders, [](const fs::path& folder) { return folder.string(); }),
      "); models come with the Python package gymnasium: `tools/bootstrap --mujoco`, or `pip install gymnasium` into "
      "an active virtual environment, or TANDEM_MUJOCO_MODELS=DIR; a path with a slash names a model of yours"));
}

std::string how_to_get_mujoco() {
  return "; install it with `tools/bootstrap --mujoco`, or with `pip install mujoco-core gymnasium` into an active "
         "virtual environment, or name one with TANDEM_MUJOCO=DIR";
}

}  // namespace tandem::rl
