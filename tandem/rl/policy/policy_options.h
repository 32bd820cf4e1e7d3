// rl/policy/policy_options.h: how actors act, which convolutions a policy has in front of its hidden layers, which
// encoder.h describes, and what is normalised.
//
// These options are apart because a configuration names them, and is compiled without LibTorch.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/base/cpu.h"

namespace tandem::rl {

enum class Torso {
  // kNatureCnn for images that are large enough for it, kResidual for smaller ones, kNone where there are no images.
  kAuto,
  // Images are flattened, as other leaves.
  kNone,
  kNatureCnn,
  kResidual,
};

struct TorsoOptions {
  Torso kind = Torso::kAuto;
  /// The channels of kResidual's sections, whose number they decide as well.
  std::vector<std::int64_t> channels = {16, 32, 32};
  /// Residual blocks of each section.
  std::int64_t blocks = 2;
};

enum class Acting {
  // Actions are drawn from the distribution, as training needs it.
  kSample,
  // Actions are the distribution's mode(), the usual choice in an evaluation.
  kMode,
};

/// How policies that remember act on the CPU. The two draw from different random streams, so their runs differ.
enum class ActingWithMemory {
  kInLoops,       // without tensors, where the policy allows (RecurrentActor)
  kByOperations,  // by the policy's own forward_sequences()
};

struct ActorOptions {
  Acting acting = Acting::kSample;
  /// Steps for which state-dependent noise is held (sde_sample_freq of stable-baselines3); 0: for a whole rollout or
  /// episode.
  int noise_hold_steps = 4;
  /// The part of a step's normal draw that stays in the next step's, at least 0 and below 1, within an episode: an
  /// Ornstein-Uhlenbeck process (Lillicrap et al. 2015) with the same deviation as independent draws, which 0 are.
  float noise_correlation = 0;
  /// The instruction set of the loops that run MLP policies on the CPU and of those that compute their gradients.
  /// Another set gives other last bits, so a resumed run, and all ranks, must have the same.
  InstructionSet instruction_set = detect_instruction_set();
  ActingWithMemory memory = ActingWithMemory::kInLoops;
};

/// The normalisation of observations and rewards (normalizer.h).
struct NormalizerOptions {
  bool observations = false;
  bool rewards = false;
  /// Normalised observations are cut to [-clip, clip], and scaled rewards as well.
  double clip_observation = 10;
  double clip_reward = 10;
  /// Added to variances, so that a constant element is not divided by zero.
  double epsilon = 1e-8;

  [[nodiscard]] bool any() const { return observations || rewards; }
};

}  // namespace tandem::rl
