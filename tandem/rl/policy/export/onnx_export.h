// rl/policy/export/onnx_export.h: a policy as a model of ONNX, which onnxruntime and others run on processors of every
// kind, without this library.
//
// Inputs are what the environment shows, a leaf each under its name (leaf_names()), [rows, shape...]: the normaliser is
// inside. Of an environment with masks there is `mask`, uint8 [rows, options]; of a policy that remembers `state`
// [rows, numbers], zeros where an episode begins. Outputs are `action`, the mode of the policy's distribution within
// the bounds; `logits` or `mean`, its first parameter as ActionFamily has it; and `next_state`. The metadata has the
// facts of describe_policy(). docs/export.md describes the file for users.
//
// Every policy that overrides ActorCritic::acting_net() can be written.
//
// Threads: any, while nothing writes to the policy.
#pragma once
#include <filesystem>
#include <string>

#include "tandem/rl/policy/export/exported_policy.h"

namespace tandem::rl {

/// The bytes of the file. Throws ConfigError for a policy whose class does not override acting_net(), or for one of 2
/// GiB.
[[nodiscard]] std::string onnx_of(const ExportedPolicy& exported);

/// Writes onnx_of() to `path`; the file is whole or not there. Blocks on the disk. Throws CheckpointError when it
/// cannot be written.
void export_onnx(const ExportedPolicy& exported, const std::filesystem::path& path);

}  // namespace tandem::rl
