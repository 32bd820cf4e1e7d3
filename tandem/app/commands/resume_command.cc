#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/run_session.h"

namespace tandem::app {

ExitCode run_resume(const ResumeCommand& command, const rl::EnvRegistry& environments) {
  RunFolder folder = RunFolder::open(command.run);
  Configuration configuration = reconfigure(folder.paths().config(), command.flags, surroundings_of(environments));
  const std::optional<model::Checkpoint> checkpoint = checkpoint_to_resume(folder.paths(), configuration);
  if (has_ended(folder.paths(), configuration.options, checkpoint))
    return say_ended(folder.paths(), configuration.options);
  if (!command.flags.empty()) folder.write_config(configuration.yaml);
  return train_in(folder, configuration, environments, checkpoint);
}

}  // namespace tandem::app
