// rl/policy/export/header_export.h: a policy as one C++11 header with its weights, which needs nothing but the standard
// library and takes no memory: for robots.
//
//   #include "pole.h"
//   tandem_pole::Observation seen = {{0.0F, 0.1F, 0.0F, -0.1F}};
//   tandem_pole::Action action;
//   if (tandem_pole::act(seen, action)) push(action.choice);
//
// Its actions are the mode of the policy's distribution within the bounds, of what the environment shows, and have the
// bits that the portable kernels give (kernels/mlp_kernels.h, cell_kernels.h), which header_kernels.h has once more.
// docs/export.md describes the file for users.
//
// It takes policies of any algorithm whose acting_net() says what they compute, without convolutions: images go through
// ONNX.
//
// Threads: any, while nothing writes to the policy.
#pragma once
#include <filesystem>
#include <string>

#include "tandem/rl/policy/export/exported_policy.h"

namespace tandem::rl {

/// The text of the header. `name`: what its namespace ends in, "tandem_NAME"; made an identifier where it is none.
/// Throws ConfigError for a policy with convolutions, with more than 2^22 weights, with a weight that is not a finite
/// float32, or of a class that does not override acting_net().
[[nodiscard]] std::string header_of(const ExportedPolicy& exported, const std::string& name);

/// The namespace of the header that export_header() writes to `path`.
[[nodiscard]] std::string header_namespace(const std::filesystem::path& path);

/// Writes header_of() to `path`, with the name of the file as the namespace's. The file is whole or not there. Blocks
/// on the disk. Throws CheckpointError when it cannot be written.
void export_header(const ExportedPolicy& exported, const std::filesystem::path& path);

}  // namespace tandem::rl
