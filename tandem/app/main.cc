#include "tandem/app/exit_code.h"
#include "tandem/app/program.h"

namespace {

// Called by the loader before it initialises any library; see exit_code.h.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = tandem::app::require_current_folder;

}  // namespace

int main(int argc, char** argv) { return tandem::app::run_program(argc, argv, tandem::rl::EnvRegistry::native()); }
