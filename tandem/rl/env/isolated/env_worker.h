// rl/env/isolated/env_worker.h: the worker's side: a process that a training started (isolated_envs.h), and that steps
// environments for it until the training is gone.
//
//   int main(int argc, char** argv) {
//     if (argc == 2 && argv[1] == std::string("env-worker")) {
//       serve_envs(environments);
//       return 0;
//     }
//
// run_program() of the program does this; only a main() that trains without it needs the lines above.
//
// Threads: the calling thread steps; another one watches the socket, so that the process ends with the training though
// an environment hangs. Blocking: until the training is gone, and environments are destroyed.
#pragma once
#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {

/// Serves one env group over the descriptors kWorkerSocket and kWorkerMemory (region_layout.h). Returns when the
/// training has let the group go; when it does so within a call into an environment, ends the process instead. Throws
/// ConfigError where these descriptors are not a training's, and RunError where a library has closed the socket.
void serve_envs(const EnvRegistry& environments);

}  // namespace tandem::rl
