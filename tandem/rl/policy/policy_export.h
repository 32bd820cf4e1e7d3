// rl/policy/policy_export.h: a policy as a file: as a TorchScript, which Python and C++ load without Tandem, or its
// weights alone, for those who rebuild the network themselves.
//
//   policy = torch.jit.load("policy.pt")
//   action = policy.act(observation)                  # deterministic, within the bounds: what env.step() takes
//   parameters, value = policy(observation)           # as ActionFamily lists them, and the value
//
// `observation` is a tensor [B, ...] for an environment with one observation leaf, else a list of one tensor a leaf.
// Raw observations of the environment: the normaliser is inside, frozen, and floats of any dtype are taken. For
// discrete actions act() takes an optional mask [B, options], non-zero where allowed. Where a policy has
// state-independent parameters (log_std), they come as they are.
//
//   tensors = safetensors.torch.load_file("policy.safetensors")      # Python
//
// Names in a safetensors file are those of the module ("actor.0.weight", "log_std"). Where the run normalised
// observations, leaf L adds "observation_mean.L" and "observation_std.L", shaped as the leaf: the network saw clip((x -
// mean) / std). The file's metadata has "env", "action_family", and "observation_clip" where observations were
// normalised.
//
// Threads: any, while nothing writes to the policy. Ownership: nothing is kept; the script holds copies.
#pragma once
#include <filesystem>

#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"

namespace torch::jit {
struct Module;
}

namespace tandem::rl {

/// The policy as a TorchScript module, in evaluation mode and on the CPU. `normalizers`: those of the run, or null.
/// Throws ConfigError when the policy's class has no script(), or one that TorchScript does not compile (with the
/// compiler's message).
[[nodiscard]] torch::jit::Module make_script(const ActorCritic& policy, const Normalizers* normalizers);

/// Writes make_script() to `path`; the file is whole or not there. Blocks on the disk. Throws CheckpointError when it
/// cannot be written.
void export_script(const ActorCritic& policy, const Normalizers* normalizers, const std::filesystem::path& path);

/// Writes the weights as a safetensors file. `normalizers`: those of the run, or null. The file is whole or not there.
/// Blocks on the disk. Throws CheckpointError when it cannot be written.
void export_weights(const ActorCritic& policy, const Normalizers* normalizers, const std::filesystem::path& path);

}  // namespace tandem::rl
