// rl/policy/actor_options.h: how actors act.
#pragma once
#include "tandem/base/cpu.h"

namespace tandem::rl {

enum class Acting {
  kSample,  // draw from the distribution: training
  kMode,    // its most probable action: evaluation
};

struct ActorOptions {
  Acting acting = Acting::kSample;
  /// Steps for which state-dependent noise is held (sde_sample_freq of stable-baselines3); 0: for a whole rollout or
  /// episode.
  int noise_hold_steps = 4;
  /// Of the loops that run MLP policies on the CPU, and of the kernels that compute their gradients. Another one gives
  /// other last bits.
  InstructionSet instruction_set = detect_instruction_set();
};

}  // namespace tandem::rl
