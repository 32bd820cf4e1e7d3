// app/commands/checkpoint_text.h: what a checkpoint holds, for people and for programs.
//
// Threads: free functions. A stored configuration is shown as its text and not parsed, so checkpoints of other programs
// can be shown, too.
#pragma once
#include <string>

#include "tandem/model/files/checkpoint.h"

namespace tandem::app {

/// Reads every part. Throws CheckpointError when one is damaged.
[[nodiscard]] std::string checkpoint_text(const model::Checkpoint& checkpoint);
/// Has the same facts as one JSON object. Reads every part, and throws as checkpoint_text() does.
[[nodiscard]] std::string checkpoint_json(const model::Checkpoint& checkpoint);

}  // namespace tandem::app
