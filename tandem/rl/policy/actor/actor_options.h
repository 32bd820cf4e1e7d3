// rl/policy/actor/actor_options.h: how actors act.
//
// This file is apart from actor.h because a configuration names these options, and is compiled without LibTorch.
#pragma once
#include "tandem/base/cpu.h"

namespace tandem::rl {

enum class Acting {
  // Actions are drawn from the distribution, as training needs it.
  kSample,
  // Actions are the distribution's mode(), the usual choice in an evaluation.
  kMode,
};

struct ActorOptions {
  Acting acting = Acting::kSample;
  /// Steps for which state-dependent noise is held (sde_sample_freq of stable-baselines3); 0: for a whole rollout or
  /// episode.
  int noise_hold_steps = 4;
  /// The instruction set of the loops that run MLP policies on the CPU and of those that compute their gradients.
  /// Another set gives other last bits, so a resumed run, and all ranks, must have the same.
  InstructionSet instruction_set = detect_instruction_set();
};

}  // namespace tandem::rl
