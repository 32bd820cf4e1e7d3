// The program `tandem` with one environment more. Everything that tandem can do works on it:
//
//   own_env train --env Corridor-v0 --total-steps 60000 --run-dir runs/corridor
//   own_env eval runs/corridor --episodes 100
#include <tandem/app/program.h>

#include "corridor.h"

int main(int argc, char** argv) {
  tandem::rl::EnvRegistry environments = tandem::rl::EnvRegistry::native();
  environments.add<Corridor>();
  return tandem::app::run_program(argc, argv, environments);
}
