// app/commands/run_text.h: what a run folder holds, for people and for programs.
#pragma once
#include <string>

#include "tandem/app/run/run_folder.h"

namespace tandem::app {

/// Also of a run that is still going on: nothing is locked.
[[nodiscard]] std::string run_text(const RunPaths& paths);
[[nodiscard]] std::string run_json(const RunPaths& paths);

}  // namespace tandem::app
