// app/program.h: the program `tandem` as a function, for a main() with environments of its own:
//
//   int main(int argc, char** argv) {
//     tandem::rl::EnvRegistry environments = tandem::rl::EnvRegistry::native();
//     environments.add<Corridor>();
//     return tandem::app::run_program(argc, argv, environments);
//   }
//
// Algorithms of its own are registered before: app/algo/algorithms.h. Functions of its own are called while a run
// trains: app/train/run_observer.h.
#pragma once
#include "tandem/app/train/run_observer.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// Does what the command line says and returns the exit code (exit_code.h). Prints, takes over SIGINT, SIGTERM,
/// SIGHUP, SIGUSR1 and SIGUSR2 while it trains and ignores them afterwards unless there were handlers before, and
/// ignores SIGPIPE from then on. Meanwhile a library that ends the process by exit() makes it end with code 3
/// (app/run/early_end.h). Throws nothing. The environment variable TANDEM_FAULT arms a fault
/// (base/fault_point.h): TANDEM_FAULT=checkpoint.before_manifest:3:kill.
/// Call it once, from the main thread, before other threads exist: the function reads the environment and sets signal
/// handling of the whole process. `environments` and `observer`, which train and resume call, must outlive the call.
[[nodiscard]] int run_program(int argc, const char* const* argv, const rl::EnvRegistry& environments,
                              const RunObserver& observer = {});

}  // namespace tandem::app
