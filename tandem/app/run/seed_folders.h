// app/run/seed_folders.h: how the folder of `train --seeds` is laid out.
//
//   FOLDER/seed-0 ... FOLDER/seed-2    the runs, by their seeds
//   FOLDER/seeds.json                  what came of each, once all have ended
//
// Threads: free functions. They look without the runs' locks, so a run may be under way.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "tandem/app/run/run_folder.h"

namespace tandem::app {

/// Where the run of this seed lies, whether or not it is there.
[[nodiscard]] RunPaths seed_run(const std::filesystem::path& folder, std::int64_t seed);

/// Whether the folder has the name of such a run: "seed-7".
[[nodiscard]] bool is_seed_folder(const std::filesystem::path& folder);

/// The runs of a folder of `train --seeds`, by their seeds; also while they train. Empty where `folder` is no such
/// folder, is not there, or cannot be read.
[[nodiscard]] std::vector<RunPaths> seed_runs(const std::filesystem::path& folder);

}  // namespace tandem::app
