// rl/rollout/batch_mode.h: where a rollout ends, in RLlib's words.
#pragma once

namespace tandem::rl {

/// kTruncateEpisodes: after rollout_steps, and episodes go on in the next one. kCompleteEpisodes: with the episode that
/// each environment is in then; see complete_episodes.h.
enum class BatchMode { kTruncateEpisodes, kCompleteEpisodes };

}  // namespace tandem::rl
