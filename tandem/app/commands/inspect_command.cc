#include <iostream>

#include "tandem/app/commands/checkpoint_text.h"
#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/policy_source.h"
#include "tandem/app/commands/run_text.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {

// Each is known by one file: a checkpoint by its manifest, a run by its config.yaml.
ExitCode run_inspect(const InspectCommand& command) {
  const bool json = command.output == Output::kJson;
  if (is_checkpoint(command.source)) {
    const model::Checkpoint checkpoint = model::Checkpoint::open(command.source);
    std::cout << (json ? checkpoint_json(checkpoint) + "\n" : checkpoint_text(checkpoint));
  } else if (holds_run(command.source)) {
    const RunPaths paths{command.source};
    std::cout << (json ? run_json(paths) + "\n" : run_text(paths));
  } else {
    throw ConfigError(concat(command.source.string(), " is neither a run folder nor a checkpoint"));
  }
  return ExitCode::kDone;
}

}  // namespace tandem::app
