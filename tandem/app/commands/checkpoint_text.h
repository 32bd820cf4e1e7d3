// app/commands/checkpoint_text.h: what a checkpoint holds, for people and for programs.
#pragma once
#include <string>

#include "tandem/model/files/checkpoint.h"

namespace tandem::app {

/// Reads every part. Throws CheckpointError when one is damaged.
[[nodiscard]] std::string checkpoint_text(const model::Checkpoint& checkpoint);
[[nodiscard]] std::string checkpoint_json(const model::Checkpoint& checkpoint);

}  // namespace tandem::app
