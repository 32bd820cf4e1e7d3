// python/src/environments.h: the environments that the package knows before a run names plugins: the program's.
//
// Threads: any that holds the interpreter's lock.
#pragma once
#include <nanobind/nanobind.h>

#include "tandem/rl/env/env_registry.h"

namespace tandem::python {

/// Tandem's own and those of Pythons. The reference stays good for the life of the process.
[[nodiscard]] const rl::EnvRegistry& environments();

/// Binds questions about names of environments, and EnvGroup as the vector environment of the package needs it.
void bind_environments(nanobind::module_& module);

}  // namespace tandem::python
