// rl/rollout/gae.h: generalised advantage estimation.
//
// Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), equations
// 11-16:
//     delta_t = r_t + gamma * (1 - done_t) * V(s_{t+1}) - V(s_t)
//     A_t     = delta_t + gamma * lambda * (1 - done_t) * A_{t+1}
// and the value target is A_t + V(s_t). An episode cut short by its time limit is done too, but gamma * V of its last
// observation is part of its last reward (rollout_worker.h), so it is not taken for an end of the task.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tandem/concurrency/trace.h"
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

/// Fills `advantage` and `value_target` from reward, value and done. Both factors lie within [0, 1].
/// Works in place on the first `steps` steps, in float32. `value` row T must hold the bootstrap value.
inline void compute_gae(Fragment& fragment, double gamma, double lambda) {
  const Span span("gae");
  const auto discount = static_cast<float>(gamma), decay = static_cast<float>(gamma * lambda);
  const int rows = fragment.rows;
  // Time runs backwards in the outer loop, so that the inner one goes over neighbouring memory.
  for (int t = fragment.steps - 1; t >= 0; --t) {
    const std::ptrdiff_t at = std::ptrdiff_t{t} * rows;
    const float* value = fragment.value.const_data_ptr<float>() + at;
    const float* reward = fragment.reward.const_data_ptr<float>() + at;
    const std::uint8_t* done = fragment.done.const_data_ptr<std::uint8_t>() + at;
    float* advantage = fragment.advantage.data_ptr<float>() + at;
    float* target = fragment.value_target.data_ptr<float>() + at;
    const bool is_last = t + 1 == fragment.steps;
    for (int i = 0; i < rows; ++i) {
      const float goes_on = done[i] != 0 ? 0.0F : 1.0F;
      const float delta = reward[i] + discount * goes_on * value[i + rows] - value[i];
      advantage[i] = delta + decay * goes_on * (is_last ? 0.0F : advantage[i + rows]);
      target[i] = advantage[i] + value[i];
    }
  }
}

}  // namespace tandem::rl
