#include "tandem/app/exit_code.h"
#include "tandem/app/program.h"

namespace {

void prepare() {
  (void)tandem::app::open_standard_streams();
  tandem::app::require_current_folder();
}

// Called by the loader before it initialises any library; see exit_code.h.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = prepare;

}  // namespace

int main(int argc, char** argv) { return tandem::app::run_program(argc, argv, tandem::rl::EnvRegistry::native()); }
