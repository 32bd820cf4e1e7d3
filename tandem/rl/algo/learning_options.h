// rl/algo/learning_options.h: options that the algorithms share, and what they say about counts that do not fit.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "tandem/base/text.h"
#include "tandem/rl/algo/schedule.h"
#include "tandem/rl/rollout/time_limit.h"

namespace tandem::rl {

/// How the loss and its gradients are computed. All give the same numbers to rounding, the last two the same bits.
enum class LossKernel {
  kAuto,      // by fused kernels, else recorded on a CUDA device, else as kOff: what the policy allows (gradient_way.h)
  kRecorded,  // tensor operations and autograd, recorded (learner/replayed_loss.h); where that cannot be, an error
  kOff,       // tensor operations and autograd
};

/// A count that does not fit the others.
/// The caller makes a message of it, with the name that the key has in the program's configuration or in the library.
struct CountFault {
  std::string key, value;  // of the algorithm's options
  std::string problem;     // and what would work
};

/// Proposes what to write instead of a count that does not fit: `unit` times the divisors of `total`, of at least
/// `least`, next to `wanted`. Empty when there is none.
[[nodiscard]] inline std::string nearest_divisors(std::int64_t total, std::int64_t wanted, std::int64_t unit = 1,
                                                  std::int64_t least = 1) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t d = 1; d <= total / d; ++d) {
    if (total % d != 0) continue;
    for (const std::int64_t divisor : {d, total / d}) {
      if (divisor < least) continue;
      if (divisor <= wanted && divisor > below) below = divisor;
      if (divisor > wanted && (above == 0 || divisor < above)) above = divisor;
    }
  }
  if (below == 0) return above == 0 ? "" : concat(above * unit);
  return above == 0 ? concat(below * unit) : concat(below * unit, " or ", above * unit);
}

/// Proposes the multiples of `unit` next to `wanted`.
[[nodiscard]] inline std::string nearest_multiples(std::int64_t unit, std::int64_t wanted) {
  const std::int64_t below = wanted / unit * unit;
  return below == 0 ? concat(unit) : concat(below, " or ", below + unit);
}

}  // namespace tandem::rl
