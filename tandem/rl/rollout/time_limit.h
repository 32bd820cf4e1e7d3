// rl/rollout/time_limit.h: what the rest of an episode is worth that its time limit cut short.
#pragma once

namespace tandem::rl {

/// kBootstrap: the value of its last observation, since the episode goes on in truth. kTerminal: nothing, as of an
/// episode that came to its end (CleanRL's).
/// Says what stands for the rest of the return where a time limit cut an episode short.
enum class TimeLimit { kBootstrap, kTerminal };

}  // namespace tandem::rl
