// app/commands/policy_source.h: a trained policy that the user names by a run folder or a checkpoint.
//
// Threads: free functions. Files are read only; a run that still trains can be named, since a checkpoint is whole once
// its manifest is there.
#pragma once
#include <filesystem>
#include <vector>

#include "tandem/app/config/train_options.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// Whether `path` is the folder of one checkpoint.
/// Looks for the manifest alone; false, and no error, where the path cannot be read.
[[nodiscard]] bool is_checkpoint(const std::filesystem::path& path);

/// The checkpoint at `path`, or the newest one of the run there, every byte checked. Throws ConfigError when there is
/// neither, and CheckpointError when it is damaged.
[[nodiscard]] model::Checkpoint find_checkpoint(const std::filesystem::path& path);

/// The options of the run that wrote it.
/// Throws CheckpointError when the checkpoint holds no configuration, as one that another program wrote.
[[nodiscard]] TrainOptions options_of(const model::Checkpoint& checkpoint);

/// `environments` with the plugins of the run, or with `plugins` where some are given: the run's may have moved.
/// Loads the libraries, which stay loaded.
[[nodiscard]] rl::EnvRegistry environments_of(const TrainOptions& options, rl::EnvRegistry environments,
                                              const std::vector<std::filesystem::path>& plugins);

}  // namespace tandem::app
