#include "tandem/app/commands/commands.h"
#include "tandem/rl/env/isolated/env_worker.h"

namespace tandem::app {

ExitCode run_command(const EnvWorkerCommand& /*command*/, const rl::EnvRegistry& environments) {
  rl::serve_envs(environments);
  return ExitCode::kDone;
}

}  // namespace tandem::app
