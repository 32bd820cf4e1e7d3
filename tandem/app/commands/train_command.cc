#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/run_ranks.h"
#include "tandem/app/commands/run_session.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char* kRuns = "runs";

ExitCode train_anew(const Configuration& configuration, const std::filesystem::path& path,
                    const rl::EnvRegistry& environments, Leader& leader) {
  RunFolder folder = RunFolder::create(path, configuration.yaml);
  return train_in(folder, configuration, environments, {}, leader);
}

// The run that lies in `path`, with what was asked for now where that may change.
ExitCode go_on(ConfigSources sources, const std::filesystem::path& path, const rl::EnvRegistry& environments,
               Leader& leader) {
  RunFolder folder = RunFolder::open(path);
  sources.recorded = folder.paths().config();
  Configuration configuration = configure(sources, surroundings_of(environments, leader.ranks()));
  const std::optional<model::Checkpoint> checkpoint = checkpoint_to_resume(folder.paths(), configuration);
  if (has_ended(folder.paths(), configuration.options, checkpoint))
    return say_ended(folder.paths(), configuration.options, leader);
  folder.write_config(configuration.yaml);
  return train_in(folder, configuration, environments, checkpoint, leader);
}

ExitCode lead(const TrainCommand& command, const rl::EnvRegistry& environments, Leader& leader) {
  const Configuration configuration = configure(command.sources, surroundings_of(environments, leader.ranks()));
  const TrainOptions& options = configuration.options;
  if (options.resume == Resume::kMust && !options.run_dir) {
    throw ConfigError("resume = must: name the folder of the run with --run-dir");
  }
  if (!options.run_dir) {
    const auto now = std::chrono::system_clock::now();
    return train_anew(configuration, new_run_path(kRuns, options.env, word_of(options.algo), now), environments,
                      leader);
  }
  const std::filesystem::path& path = *options.run_dir;
  const bool goes_on =
      options.resume == Resume::kMust || (options.resume == Resume::kAuto && content_of(path) == FolderContent::kRun);
  return goes_on ? go_on(command.sources, path, environments, leader)
                 : train_anew(configuration, path, environments, leader);
}

}  // namespace

ExitCode run_train(const TrainCommand& command, const rl::EnvRegistry& environments) {
  return run_on_all_ranks(command.world, command.sources.flags, environments,
                          [&](Leader& leader) { return lead(command, environments, leader); });
}

}  // namespace tandem::app
