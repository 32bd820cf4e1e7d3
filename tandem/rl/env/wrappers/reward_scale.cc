#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/reward_group.h"

namespace tandem::rl {

// A negative factor turns the task round: what was solved at 475 and above would be at -475 and below.
EnvWrapper reward_scale(double factor) {
  return reward_wrapper(
      concat("reward_scale=", factor), [factor](double reward) { return reward * factor; },
      [factor](double threshold) { return factor > 0 ? std::optional(threshold * factor) : std::nullopt; });
}

}  // namespace tandem::rl
