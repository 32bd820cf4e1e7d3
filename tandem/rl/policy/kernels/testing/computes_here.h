// The ways to multiply bfloat16 that this processor has: tests of rounded products go through them, and there may be
// none.
#pragma once
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/policy/kernels/compute.h"

namespace tandem::rl::testing {

/// In the order of Compute, without kFloat32. What cannot be had here require_compute() refuses, which has a test of
/// its own (ComputeTest).
inline std::vector<Compute> computes_here() {
  std::vector<Compute> all;
  for (const Compute each : {Compute::kBfloat16, Compute::kBfloat16Tiles}) {
    try {
      require_compute(each, detect_instruction_set());
    } catch (const ConfigError&) {
      continue;
    }
    all.push_back(each);
  }
  return all;
}

}  // namespace tandem::rl::testing
