// rl/algo/run_parts.h: what the runs of all algorithms write into their checkpoints in the same way.
//
// Threads: all.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tandem/model/state_hash.h"
#include "tandem/rl/rollout/episodes.h"

namespace tandem::rl {

[[nodiscard]] std::string shard_part(int shard);
[[nodiscard]] std::string group_part(int group);

[[nodiscard]] at::Tensor tensor_of(const std::vector<std::byte>& bytes);
/// Of a contiguous tensor, which outlives the result.
[[nodiscard]] std::span<const std::byte> bytes_of(const at::Tensor& tensor);

/// The tensor of a part by its name. Throws CheckpointError when there is none.
[[nodiscard]] const at::Tensor& find(const model::NamedTensors& tensors, const std::string& name,
                                     const std::string& part);

/// The part "run": counters, and the episodes of the window.
[[nodiscard]] model::NamedTensors run_part_of(const std::vector<std::int64_t>& counters, const EpisodeWindow& episodes);
/// Its counters. Throws CheckpointError when there are not `count`.
[[nodiscard]] std::vector<std::int64_t> counters_of(const model::NamedTensors& run, std::size_t count);
void restore_episodes(const model::NamedTensors& run, std::int64_t total, EpisodeWindow& episodes);

}  // namespace tandem::rl
