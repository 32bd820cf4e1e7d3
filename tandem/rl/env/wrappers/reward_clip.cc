#include <algorithm>

#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/reward_group.h"

namespace tandem::rl {
namespace {

std::optional<double> no_threshold(double /*threshold*/) { return std::nullopt; }

}  // namespace

EnvWrapper reward_clip(const ValueRange& range) {
  return reward_wrapper(
      concat("reward_clip=", range.low, "..", range.high),
      [range](double reward) { return std::clamp(reward, range.low, range.high); }, no_threshold);
}

EnvWrapper reward_sign() {
  return reward_wrapper(
      "reward_clip=sign",
      [](double reward) { return static_cast<double>(static_cast<int>(reward > 0) - static_cast<int>(reward < 0)); },
      no_threshold);
}

}  // namespace tandem::rl
