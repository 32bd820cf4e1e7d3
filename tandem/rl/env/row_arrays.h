// rl/env/row_arrays.h: the arrays and the actions of one environment of a group, for groups that are made of groups of
// one.
//
// Threads: free functions on values. Pointers that are null stay null.
#pragma once
#include <cstddef>
#include <vector>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// Makes `part` the arrays of environment `env` alone, out of those of all. `part` is written, and not returned, so
/// that its vectors take memory only the first time.
inline void row_of(const Spec& spec, std::size_t env, const EnvArrays& all, EnvArrays& part) {
  part.observation = all.observation;
  part.final_observation = all.final_observation;
  for (std::vector<std::byte*>* leaves : {&part.observation, &part.final_observation}) {
    for (std::size_t l = 0; l < leaves->size(); ++l) (*leaves)[l] += env * spec.observation[l].bytes();
  }
  const auto options = static_cast<std::size_t>(mask_elements(spec.action));
  part.action_mask = all.action_mask == nullptr ? nullptr : all.action_mask + env * options;
  part.reward = all.reward == nullptr ? nullptr : all.reward + env;
  part.terminated = all.terminated == nullptr ? nullptr : all.terminated + env;
  part.truncated = all.truncated == nullptr ? nullptr : all.truncated + env;
  part.metrics = all.metrics == nullptr ? nullptr : all.metrics + env * spec.metrics.size();
}
[[nodiscard]] inline EnvActions row_of(const Spec& spec, std::size_t env, const EnvActions& all) {
  const std::size_t at = env * static_cast<std::size_t>(action_elements(spec.action));
  return {.discrete = all.discrete == nullptr ? nullptr : all.discrete + at,
          .box = all.box == nullptr ? nullptr : all.box + at};
}

}  // namespace tandem::rl
