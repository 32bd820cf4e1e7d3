#include "tandem/app/program.h"

int main(int argc, char** argv) { return tandem::app::run_program(argc, argv, tandem::rl::EnvRegistry::native()); }
