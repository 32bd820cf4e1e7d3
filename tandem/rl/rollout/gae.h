// rl/rollout/gae.h: generalised advantage estimation.
//
// Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), equations
// 11-16:
//     delta_t = r_t + gamma * (1 - done_t) * V(s_{t+1}) - V(s_t)
//     A_t     = delta_t + gamma * lambda * (1 - done_t) * A_{t+1}
// and the value target is A_t + V(s_t). An episode cut short by its time limit is done too, but gamma * V of its last
// observation is part of its last reward (rollout_worker.h), so it is not taken for an end of the task.
#pragma once
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

/// Fills `advantage` and `value_target` from reward, value and done. Both factors lie within [0, 1].
/// Works in place on the first `steps` steps, in float32. `value` row T must hold the bootstrap value.
void compute_gae(Fragment& fragment, double gamma, double lambda);

}  // namespace tandem::rl
