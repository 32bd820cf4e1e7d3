// bench/rl/core_peak.h: what the kernels' rates are held against.
#pragma once

namespace tandem::bench {

/// Multiply-adds of float32 a second that this core can make, in registers; 0 without vector instructions for them.
/// x86-64 alone.
[[nodiscard]] double core_peak();

}  // namespace tandem::bench
