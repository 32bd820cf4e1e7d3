#include "tandem/app/commands/policy_source.h"

#include "tandem/app/commands/run_session.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {

bool is_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path / model::kManifestFile, ignored);
}

model::Checkpoint find_checkpoint(const std::filesystem::path& path) {
  if (is_checkpoint(path)) {
    // A named checkpoint is verified here; CheckpointStore::latest() has verified the newest one of a run.
    model::Checkpoint checkpoint = model::Checkpoint::open(path);
    checkpoint.verify();
    return checkpoint;
  }
  if (!holds_run(path)) {
    const bool is_checkpoints = holds_run(path.parent_path());
    throw ConfigError(
        concat(path.string(), " is neither a run folder (it has no config.yaml) nor a checkpoint (it has no ",
               model::kManifestFile, ")", is_checkpoints ? concat("; its run is ", path.parent_path().string()) : ""));
  }
  std::optional<model::Checkpoint> newest = newest_checkpoint({path});
  if (!newest) throw ConfigError(concat("the run ", path.string(), " has no checkpoint yet"));
  return *std::move(newest);
}

TrainOptions options_of(const model::Checkpoint& checkpoint) {
  const std::string config = config_of(checkpoint);
  if (config.empty()) {
    throw CheckpointError(
        concat(checkpoint.folder().string(),
               " does not hold the configuration of its run; it was written by another program (kind '",
               checkpoint.info().kind, "')"));
  }
  return read_recorded(config, (checkpoint.folder() / model::kManifestFile).string());
}

rl::EnvRegistry environments_of(const TrainOptions& options, rl::EnvRegistry environments,
                                const std::vector<std::filesystem::path>& plugins) {
  TrainOptions chosen = options;
  if (!plugins.empty()) chosen.plugins = plugins;
  return with_plugins(std::move(environments), chosen);
}

}  // namespace tandem::app
