// The extension tandem._core: what the modules of python/tandem are made of. Nothing here is for users; its arguments
// are checked by those modules.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "python/src/environments.h"
#include "python/src/errors.h"
#include "python/src/option_list.h"
#include "python/src/policies.h"
#include "python/src/training.h"
#include "tandem/app/algo/algorithms.h"
#include "tandem/app/program.h"
#include "tandem/app/run/program_name.h"
#include "tandem/rl/env/mujoco/mujoco_places.h"

namespace nb = nanobind;

namespace tandem::python {
namespace {

void set_places(const std::vector<std::string>& own_command, const rl::MujocoPlaces& places) {
  app::own_command() = own_command;
  rl::set_mujoco_places(places);
}

// The interpreter ends with what it returns, so nobody waits for the lock.
int run_program(std::vector<std::string> arguments) {
  std::vector<const char*> words;
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  const nb::gil_scoped_release released;
  return app::run_program(static_cast<int>(words.size()), words.data(), rl::EnvRegistry::native());
}

}  // namespace
}  // namespace tandem::python

NB_MODULE(_core, module) {
  using namespace tandem::python;  // NOLINT(google-build-using-namespace)
  nb::set_leak_warnings(false);    // the module is kept to the end of the interpreter
  tandem::app::register_native_algorithms();
  translate_errors();
  module.def(
      "set_places",
      [](const std::vector<std::string>& own_command, std::string library, std::string models, std::string python,
         std::string opengl, std::string egl_device) {
        set_places(own_command, {std::move(library), std::move(models), std::move(python), std::move(opengl),
                                 std::move(egl_device)});
      },
      "How this program is started again, and where MuJoCo is looked for.");
  module.def("run_program", run_program, "The program `tandem`; returns its exit code.");
  bind_option_list(module);
  bind_environments(module);
  bind_training(module);
  bind_policies(module);
}
