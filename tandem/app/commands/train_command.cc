// lead() decides on rank 0 between a new run and one that goes on; check() makes the same decision in the process that
// starts ranks, without creating or locking a folder. Changes to one must be made to the other.
#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/run_ranks.h"
#include "tandem/app/commands/run_session.h"
#include "tandem/app/commands/start_ranks.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/device/device_set.h"

namespace tandem::app {
namespace {

constexpr const char* kRuns = "runs";

// Creating the folder takes its lock, which the local object holds until training ends.
std::optional<ExitCode> train_anew(Configuration configuration, const std::filesystem::path& path,
                                   const rl::EnvRegistry& environments, Leader& leader) {
  RunFolder folder = RunFolder::create(path, configuration.yaml);
  if (!folder.remark().empty()) configuration.notes.push_back(folder.remark());
  return train_in(folder, configuration, environments, {}, leader);
}

// The run that lies in `path`, with what was asked for now where that may change.
std::optional<ExitCode> go_on(ConfigSources sources, const std::filesystem::path& path,
                              const rl::EnvRegistry& environments, Leader& leader) {
  RunFolder folder = RunFolder::open(path);
  sources.recorded = folder.paths().config();
  Configuration configuration = configure(sources, surroundings_of(environments, leader));
  const std::optional<model::Checkpoint> checkpoint = checkpoint_to_resume(folder.paths(), configuration);
  if (has_ended(folder.paths(), configuration.options, checkpoint))
    return say_ended(folder.paths(), configuration.options, leader);
  folder.write_config(configuration.yaml);
  return train_in(folder, configuration, environments, checkpoint, leader);
}

// Whether it is the run in the options' folder that is asked for.
bool goes_on(const TrainOptions& options) {
  if (options.resume == Resume::kMust && !options.run_dir)
    throw ConfigError("resume = must: name the folder of the run with --run-dir");
  if (!options.run_dir) return false;
  return options.resume == Resume::kMust || (options.resume == Resume::kAuto && holds_run(*options.run_dir));
}

std::optional<ExitCode> lead(const TrainCommand& command, const rl::EnvRegistry& environments, Leader& leader) {
  const TrainOptions asked = asked_for(command.sources);
  if (goes_on(asked)) return go_on(command.sources, *asked.run_dir, environments, leader);
  Configuration configuration = configure(command.sources, surroundings_of(environments, leader));
  const TrainOptions& options = configuration.options;
  const std::filesystem::path path =
      options.run_dir ? *options.run_dir
                      : new_run_path(kRuns, options.env, options.algo, std::chrono::system_clock::now());
  return train_anew(std::move(configuration), path, environments, leader);
}

// Throws what rank 0 of so many ranks would throw, before any of them is started.
Survivors check(const TrainCommand& command, const rl::EnvRegistry& environments) {
  const Surroundings surroundings = surroundings_of(environments, *command.ranks.count);
  const TrainOptions asked = asked_for(command.sources);
  if (!goes_on(asked)) {
    const Configuration configuration = configure(command.sources, surroundings);
    require_own_devices(device::parse_device_set(configuration.options.devices), *command.ranks.count);
    if (asked.run_dir) require_free(*asked.run_dir);
    return configuration.options.survivors;
  }
  const RunPaths run = find_run(*asked.run_dir);
  ConfigSources sources = command.sources;
  sources.recorded = run.config();
  Configuration configuration = configure(sources, surroundings);
  require_own_devices(device::parse_device_set(configuration.options.devices), *command.ranks.count);
  (void)checkpoint_to_resume(run, configuration);
  return configuration.options.survivors;
}

}  // namespace

ExitCode run_train(const TrainCommand& command, const rl::EnvRegistry& environments) {
  if (starts_ranks(command.ranks)) return start_ranks(command.ranks, [&] { return check(command, environments); });
  return run_on_all_ranks(command.ranks.world, command.sources.flags, environments,
                          [&](Leader& leader) { return lead(command, environments, leader); });
}

}  // namespace tandem::app
