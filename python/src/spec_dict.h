// python/src/spec_dict.h: what an environment shows and takes, as a dict of plain values.
#pragma once
#include <nanobind/nanobind.h>

#include "tandem/rl/env/spec.h"

namespace tandem::python {

/// Keys: id, leaves (name, dtype, shape, low, high each), action (type, and n or low and high), mask_elements,
/// max_episode_steps, reward_threshold, metrics. tandem/_spaces.py makes spaces of it.
[[nodiscard]] nanobind::dict spec_dict(const rl::Spec& spec);

}  // namespace tandem::python
