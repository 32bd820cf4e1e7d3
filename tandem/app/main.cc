#include "tandem/app/current_folder.h"
#include "tandem/app/program.h"

namespace {

// Called by the loader before it initialises any library; see current_folder.h.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = tandem::app::require_current_folder;

}  // namespace

int main(int argc, char** argv) { return tandem::app::run_program(argc, argv, tandem::rl::EnvRegistry::native()); }
