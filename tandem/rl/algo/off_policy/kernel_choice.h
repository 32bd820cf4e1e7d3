// rl/algo/off_policy/kernel_choice.h: how an algorithm with a replay computes its losses; chosen once, before it
// learns.
//
// Kernels and autograd compute the same losses, up to rounding; so a run that is resumed with the other choice is one
// of other last bits. The choice follows from the policy and the options alone, and never from a measurement.
//
// Threads: all. Nothing is kept.
#pragma once
#include <string>
#include <utility>

#include "tandem/base/cpu.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/learning_options.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// All replicas of a run must come to the same choice, or their bits would differ.
struct KernelChoice {
  bool fused = false;    // by kernels; else by tensor operations and autograd, which are the definition
  std::string sentence;  // for the log: see TrainingRun::gradients_by()
};

/// Kernels serve policies on the CPU whose networks read features alone. `why_not`: what else speaks against them, in a
/// clause; or empty.
[[nodiscard]] inline KernelChoice choose_kernels(const ActorCritic& policy, bool has_torso, LossKernel wanted,
                                                 InstructionSet set, std::string why_not = {}) {
  std::string why = std::move(why_not);
  if (wanted == LossKernel::kOff) why = "kernel is off";
  if (has_torso) why = "the policy has convolutions";
  if (!policy.parameters().front().is_cpu()) why = "the policy does not lie on the CPU";
  if (why.empty())
    return {.fused = true, .sentence = concat("losses and gradients by fused kernels (", name_of(set), ")")};
  return {.fused = false, .sentence = concat("losses and gradients by autograd, not by fused kernels: ", why)};
}

}  // namespace tandem::rl
