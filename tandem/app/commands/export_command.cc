#include <iostream>

#include "tandem/app/commands/commands.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/app/train/recorded_plugins.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/policy_export.h"

namespace tandem::app {

// TorchScript is deprecated upstream, so the weights always come in a file of their own beside it.
ExitCode run_command(const ExportCommand& command, const rl::EnvRegistry& environments) {
  constexpr const char *kScript = ".pt", *kWeights = ".safetensors";
  // Names are checked before the checkpoint is read, which may take long.
  const std::filesystem::path suffix = command.policy.extension();
  if (suffix != kScript && suffix != kWeights) {
    throw ConfigError(
        concat("--output ", command.policy.string(), ": the name must end in ", kScript, " or ", kWeights));
  }
  const std::filesystem::path folder = command.policy.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw ConfigError(concat("--output ", command.policy.string(), ": there is no folder ", folder.string()));
  }
  const model::Checkpoint checkpoint = find_checkpoint(command.source);
  const TrainOptions options = options_of(checkpoint);
  const rl::EnvRegistry known =
      environments_of_record(environments, record_of(checkpoint, options, "export", command.source), command.code);
  const TrainedPolicy trained = load_policy(checkpoint, options, known, command.name);
  if (suffix == kScript) {
    rl::export_script(*trained.policy, &trained.normalizers, command.policy);
    std::cout << printable(command.policy.string()) << "\n";
  }
  // `policy.pt` has `policy.safetensors` beside it.
  const std::filesystem::path weights = std::filesystem::path(command.policy).replace_extension(kWeights);
  rl::export_weights(*trained.policy, &trained.normalizers, weights);
  std::cout << printable(weights.string()) << "\n";
  return ExitCode::kDone;
}

}  // namespace tandem::app
