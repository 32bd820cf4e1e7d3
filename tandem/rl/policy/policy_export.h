// rl/policy/script_export.h: a policy as a TorchScript file, which Python and C++ load without Tandem.
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
// Threads: any, while nothing writes to the policy. Ownership: nothing is kept; the script holds copies.
#pragma once
#include <filesystem>

#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"

namespace torch::jit {
struct Module;
}

namespace tandem::rl {

/// `normalizers`: those of the run, or null. Throws ConfigError when the policy's class has no script(), or one that
/// TorchScript does not compile (with the compiler's message).
[[nodiscard]] torch::jit::Module make_script(const ActorCritic& policy, const Normalizers* normalizers);

/// Writes make_script() to `path`; the file is whole or not there. Blocks on the disk. Throws CheckpointError when it
/// cannot be written.
void export_script(const ActorCritic& policy, const Normalizers* normalizers, const std::filesystem::path& path);

}  // namespace tandem::rl
