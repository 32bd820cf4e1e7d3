// rl/policy/weights_export.h: a policy's weights as a safetensors file, for those who rebuild the network themselves.
//
//   tensors = safetensors.torch.load_file("policy.safetensors")      # Python
//
// Names are those of the module ("actor.0.weight", "log_std"). Where the run normalised observations, leaf L adds
// "observation_mean.L" and "observation_std.L", shaped as the leaf: the network saw clip((x - mean) / std). The file's
// metadata has "env", "action_family", and "observation_clip" where observations were normalised.
#pragma once
#include <filesystem>

#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// `normalizers`: those of the run, or null. The file is whole or not there. Blocks on the disk. Throws CheckpointError
/// when it cannot be written.
void export_weights(const ActorCritic& policy, const Normalizers* normalizers, const std::filesystem::path& path);

}  // namespace tandem::rl
