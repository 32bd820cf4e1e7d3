// rl/env/check/scale_findings.h: judges the numbers of a play: bounds, scales, constants, lengths, masks.
//
// A network learns best from numbers near 1. Where observations or rewards are far from that, the finding says by how
// much, and which option brings them there; where a number never changes, or an action has no effect, it is most likely
// a mistake of the simulator.
//
// Threads: free functions on values. Errors: none; each finding stands for itself.
#pragma once
#include <vector>

#include "tandem/rl/env/check/env_check.h"

namespace tandem::rl {

/// Judges a play of at least one step. Adds to `findings`.
void judge_observed(const Observed& observed, const MultiAgentSpec& spec, std::vector<Finding>& findings);
/// Judges the spec alone: bounds of actions and of integer observations, shapes of images.
void judge_spec(const MultiAgentSpec& spec, std::vector<Finding>& findings);

}  // namespace tandem::rl
