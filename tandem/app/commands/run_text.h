// app/commands/run_text.h: what a run folder holds, for people and for programs.
//
// Threads: free functions. The files are read as they lie there: metrics.jsonl up to its last whole line, and the
// summary where the run has one that is newer.
#pragma once
#include <string>

#include "tandem/app/run/run_folder.h"

namespace tandem::app {

/// Also of a run that is still going on: nothing is locked.
[[nodiscard]] std::string run_text(const RunPaths& paths);
/// Has the same facts as one JSON object, with config.yaml as a text in it.
[[nodiscard]] std::string run_json(const RunPaths& paths);

}  // namespace tandem::app
