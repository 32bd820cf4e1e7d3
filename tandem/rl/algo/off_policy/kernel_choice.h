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
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/off_policy/off_policy_options.h"
#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// All replicas of a run must come to the same choice, or their bits would differ.
struct KernelChoice {
  bool fused = false;    // by kernels; else by tensor operations and autograd, which are the definition
  std::string sentence;  // for the log: see TrainingRun::gradients_by()
};

/// Kernels serve policies on the CPU. `why_not`: what else speaks against them, in a clause; or empty. Throws
/// ConfigError when options.compute asks for products that there are not: nobody who asked for bfloat16 is given
/// something else.
[[nodiscard]] inline KernelChoice choose_kernels(const ActorCritic& policy, const OffPolicyOptions& options,
                                                 InstructionSet set, std::string why_not = {}) {
  std::string why = std::move(why_not);
  if (options.kernel == LossKernel::kOff) why = "kernel is off";
  if (!policy.parameters().front().is_cpu()) why = "the policy does not lie on the CPU";
  const bool is_rounded = options.compute != Compute::kFloat32;
  if (why.empty()) {
    require_compute(options.compute, set);
    return {.fused = true,
            .sentence = concat("losses and gradients by fused kernels (", name_of(set),
                               is_rounded ? concat(", products of ", name_of(options.compute)) : "", ")")};
  }
  if (is_rounded) {
    throw ConfigError(concat("compute ", name_of(options.compute),
                             ": the fused kernels alone have it, and they do not ", "serve this run: ", why,
                             "; use float32"));
  }
  return {.fused = false, .sentence = concat("losses and gradients by autograd, not by fused kernels: ", why)};
}

/// `otherwise`, or why kernels that read features alone do not serve networks behind this encoder.
[[nodiscard]] inline std::string why_not_behind(const Encoder& encoder, std::string otherwise) {
  return encoder.has_torso() ? "the policy has convolutions" : std::move(otherwise);
}

}  // namespace tandem::rl
