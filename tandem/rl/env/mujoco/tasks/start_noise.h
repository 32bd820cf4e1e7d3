// rl/env/mujoco/tasks/start_noise.h: what Gymnasium's tasks add to the first state of an episode, drawn in its order.
//
// Threads: all; functions of values.
#pragma once
#include <span>

#include "tandem/rl/env/numpy_random.h"

namespace tandem::rl {

/// values += Generator.uniform(-scale, scale, len(values))
inline void add_uniform(NumpyGenerator& random, double scale, std::span<double> values) {
  for (double& value : values) value += random.uniform(-scale, scale);
}
/// values += scale * Generator.standard_normal(len(values))
inline void add_normal(NumpyGenerator& random, double scale, std::span<double> values) {
  for (double& value : values) value += scale * random.normal();
}

}  // namespace tandem::rl
