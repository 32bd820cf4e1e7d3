// Rank 0 opens and locks the folder, resolves the options and leads; with --ranks, the process that starts the ranks
// makes the same checks without the lock, before any rank exists.
#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/run_ranks.h"
#include "tandem/app/commands/run_session.h"
#include "tandem/app/commands/start_ranks.h"
#include "tandem/device/device_set.h"

namespace tandem::app {

namespace {

std::optional<ExitCode> go_on(const ResumeCommand& command, const rl::EnvRegistry& environments, Leader& leader) {
  RunFolder folder = RunFolder::open(command.run);
  Configuration configuration =
      reconfigure(folder.paths().config(), command.flags, surroundings_of(environments, leader));
  const std::optional<model::Checkpoint> checkpoint = checkpoint_to_resume(folder.paths(), configuration);
  if (has_ended(folder.paths(), configuration.options, checkpoint))
    return say_ended(folder.paths(), configuration.options, leader);
  // Without flags the record is true as it is, and its comments stay.
  if (!command.flags.empty()) folder.write_config(configuration.yaml);
  return train_in(folder, configuration, environments, checkpoint, leader);
}

}  // namespace

ExitCode run_resume(const ResumeCommand& command, const rl::EnvRegistry& environments) {
  if (starts_ranks(command.ranks)) {
    return start_ranks(command.ranks, [&] {
      const RunPaths run = find_run(command.run);
      Configuration configuration =
          reconfigure(run.config(), command.flags, surroundings_of(environments, *command.ranks.count));
      require_own_devices(device::parse_device_set(configuration.options.devices), *command.ranks.count);
      (void)checkpoint_to_resume(run, configuration);
      return configuration.options.survivors;
    });
  }
  return run_on_all_ranks(command.ranks.world, command.flags, environments,
                          [&](Leader& leader) { return go_on(command, environments, leader); });
}

}  // namespace tandem::app
