// rl/env/wrappers/reward_group.h: a group that changes rewards by a law, and nothing else, but for a metric that tells
// what the rewards of an episode were before.
//
// Threads: single-thread, as every EnvGroup.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "tandem/rl/env/wrappers/env_wrapper.h"

namespace tandem::rl {

/// The metric that wrappers of rewards add: the sum of an episode's rewards as the environment gave them.
inline constexpr const char* kUnwrappedReturn = "unwrapped_return";

/// What becomes of the reward threshold of an environment; none means that it has no meaning any more.
using ChangeThreshold = std::function<std::optional<double>(double threshold)>;

/// A wrapper that shows law(reward). `name`: of the wrapper. `law` gives finite numbers for finite ones.
[[nodiscard]] EnvWrapper reward_wrapper(std::string name, std::function<double(double reward)> law,
                                        ChangeThreshold threshold);

}  // namespace tandem::rl
