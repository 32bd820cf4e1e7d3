#include "tandem/rl/rollout/saved_envs.h"

#include "tandem/rl/env/restarting_envs.h"

namespace tandem::rl {

GroupWorker::Resumed how_to_resume(const EnvGroup& group, std::span<const std::byte> saved) {
  using Resumed = GroupWorker::Resumed;
  if (saved.empty()) return group.can_save() ? Resumed::kAfterALoss : Resumed::kWithNewEpisodes;
  return is_of_its_kind(group, saved) ? Resumed::kExactly : Resumed::kOfAnotherKind;
}

}  // namespace tandem::rl
