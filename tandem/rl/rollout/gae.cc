#include "tandem/rl/rollout/gae.h"

#include <ATen/ATen.h>

#include "tandem/concurrency/trace.h"

namespace tandem::rl {

// Time runs backwards in the outer loop, so that the inner one goes over neighbouring memory.
void compute_gae(Fragment& fragment, double gamma, double lambda) {
  const Span span("gae");
  const auto discount = static_cast<float>(gamma), decay = static_cast<float>(gamma * lambda);
  const int rows = fragment.rows;
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
