// rl/rollout/saved_envs.h: whether a group goes on from what a worker has saved of its environments.
#pragma once
#include <cstddef>
#include <span>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/rollout/group_worker.h"

namespace tandem::rl {

/// What a resume of `group` is. `saved`: the bytes of its environments, empty where they were lost or cannot be saved.
/// Under kExactly the group loads them; else it cannot, and new episodes begin.
[[nodiscard]] GroupWorker::Resumed how_to_resume(const EnvGroup& group, std::span<const std::byte> saved);

}  // namespace tandem::rl
