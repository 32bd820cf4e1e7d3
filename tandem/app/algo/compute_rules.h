// app/algo/compute_rules.h: what the algorithms say alike of the numbers that products multiply
// (rl/policy/kernels/compute.h).
//
// Which runs the kernels serve is known only when the policy is there: rl/algo/gradient_way.h and kernel_choice.h
// refuse the rest, so that nobody who asked for bfloat16 is given something else.
//
// Threads: all.
#pragma once
#include <string>

#include "tandem/app/config/algorithm.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/learning_options.h"
#include "tandem/rl/policy/kernels/compute.h"

namespace tandem::app {

/// The help of such an option.
inline constexpr const char* kComputeHelp =
    "What products of matrices multiply while learning: float32; bfloat16, by AVX-512 BF16; bfloat16_tiles, by AMX.";

/// Adds a fault of SECTION.compute where this processor lacks the products, or where the kernels are off, so that a
/// user is told before a run begins.
inline void check_compute(Rules& rules, const std::string& section, rl::LossKernel kernel, rl::Compute compute) {
  if (compute == rl::Compute::kFloat32) return;
  if (kernel != rl::LossKernel::kAuto) {
    const char* instead = kernel == rl::LossKernel::kOff ? "off" : "recorded";
    return rules.fault(section + ".compute", concat("the kernels alone multiply ", rl::name_of(compute), ", and ",
                                                    section, ".kernel is ", instead, "; use float32, or the kernels"));
  }
  try {
    rl::require_compute(compute, rules.options().instructions.value_or(detect_instruction_set()));
  } catch (const ConfigError& error) {
    rules.fault(section + ".compute", error.what());
  }
}

}  // namespace tandem::app
