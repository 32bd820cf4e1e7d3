// `train` and `resume`. lead() decides on rank 0 between a new run and one that goes on; check() makes the same
// decision in the process that starts ranks, without creating or locking a folder. Changes to one must be made to the
// other.
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

// A run that goes on: where it lies, and how its configuration is made of what it recorded and what is asked for now.
struct Resumed {
  std::filesystem::path path;
  std::function<Configuration(const RunPaths&, const Surroundings&)> configure;
  bool is_recorded = true;  // anew; without flags the record is true as it is, and its comments stay
};

Resumed resumed_by(const ResumeCommand& command) {
  return {.path = command.run,
          .configure =
              [&command](const RunPaths& run, const Surroundings& surroundings) {
                return reconfigure(run.config(), command.flags, surroundings);
              },
          .is_recorded = !command.flags.empty()};
}

Resumed resumed_by(const TrainCommand& command, const std::filesystem::path& path) {
  return {.path = path, .configure = [&command](const RunPaths& run, const Surroundings& surroundings) {
            ConfigSources sources = command.sources;
            sources.recorded = run.config();
            return configure(sources, surroundings);
          }};
}

std::optional<ExitCode> go_on(const Resumed& run, const rl::EnvRegistry& environments, Leader& leader) {
  RunFolder folder = RunFolder::open(run.path);
  Configuration configuration = run.configure(folder.paths(), surroundings_of(environments, leader));
  const std::optional<model::Checkpoint> checkpoint = checkpoint_to_resume(folder.paths(), configuration);
  if (has_ended(folder.paths(), configuration.options, checkpoint))
    return say_ended(folder.paths(), configuration.options, leader);
  if (run.is_recorded) folder.write_config(configuration.yaml);
  return train_in(folder, configuration, environments, checkpoint, leader);
}

// Throws what go_on() on rank 0 of so many ranks would throw.
Survivors check(const Resumed& run, const rl::EnvRegistry& environments, int ranks) {
  const RunPaths paths = find_run(run.path);
  Configuration configuration = run.configure(paths, surroundings_of(environments, ranks));
  require_own_devices(device::parse_device_set(configuration.options.devices), ranks);
  (void)checkpoint_to_resume(paths, configuration);
  return configuration.options.survivors;
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
  if (goes_on(asked)) return go_on(resumed_by(command, *asked.run_dir), environments, leader);
  Configuration configuration = configure(command.sources, surroundings_of(environments, leader));
  const TrainOptions& options = configuration.options;
  const std::filesystem::path path =
      options.run_dir ? *options.run_dir
                      : new_run_path(kRuns, options.env, options.algo, std::chrono::system_clock::now());
  // Creating the folder takes its lock, which the local object holds until training ends.
  RunFolder folder = RunFolder::create(path, configuration.yaml);
  if (!folder.remark().empty()) configuration.notes.push_back(folder.remark());
  return train_in(folder, configuration, environments, {}, leader);
}

// Throws what rank 0 of so many ranks would throw, before any of them is started.
Survivors check(const TrainCommand& command, const rl::EnvRegistry& environments, int ranks) {
  const TrainOptions asked = asked_for(command.sources);
  if (goes_on(asked)) return check(resumed_by(command, *asked.run_dir), environments, ranks);
  const Configuration configuration = configure(command.sources, surroundings_of(environments, ranks));
  require_own_devices(device::parse_device_set(configuration.options.devices), ranks);
  if (asked.run_dir) require_free(*asked.run_dir);
  return configuration.options.survivors;
}

}  // namespace

ExitCode run_train(const TrainCommand& command, const rl::EnvRegistry& environments) {
  if (starts_ranks(command.ranks))
    return start_ranks(command.ranks, [&] { return check(command, environments, *command.ranks.count); });
  return run_on_all_ranks(command.ranks.world, command.sources.flags, environments,
                          [&](Leader& leader) { return lead(command, environments, leader); });
}

ExitCode run_resume(const ResumeCommand& command, const rl::EnvRegistry& environments) {
  const Resumed run = resumed_by(command);
  if (starts_ranks(command.ranks))
    return start_ranks(command.ranks, [&] { return check(run, environments, *command.ranks.count); });
  return run_on_all_ranks(command.ranks.world, command.flags, environments,
                          [&](Leader& leader) { return go_on(run, environments, leader); });
}

}  // namespace tandem::app
