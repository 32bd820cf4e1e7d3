#include "tandem/rl/replay/episode_index.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {

void EpisodeIndex::add(std::int64_t env, const End& end, std::int64_t oldest) {
  Queue& queue = by_env_[static_cast<std::size_t>(env)];
  TANDEM_CHECK(queue.ends.empty() || queue.ends.back().step < end.step, "environment ", env, " ended with step ",
               end.step, " after step ", queue.ends.back().step);
  while (queue.first < queue.ends.size() && queue.ends[queue.first].step < oldest) ++queue.first;
  if (queue.first * 2 > queue.ends.size()) {
    queue.ends.erase(queue.ends.begin(), queue.ends.begin() + static_cast<std::ptrdiff_t>(queue.first));
    queue.first = 0;
  }
  queue.ends.push_back(end);
}

void EpisodeIndex::clear() {
  for (Queue& queue : by_env_) queue = {};
}

std::vector<EpisodeIndex::End>::const_iterator EpisodeIndex::find(const Queue& queue, std::int64_t step) const {
  return std::lower_bound(queue.ends.begin() + static_cast<std::ptrdiff_t>(queue.first), queue.ends.end(), step,
                          [](const End& end, std::int64_t wanted) { return end.step < wanted; });
}

std::optional<EpisodeIndex::End> EpisodeIndex::after(std::int64_t env, std::int64_t step) const {
  const Queue& queue = by_env_[static_cast<std::size_t>(env)];
  const auto found = find(queue, step);
  if (found == queue.ends.end()) return std::nullopt;
  return *found;
}

std::optional<EpisodeIndex::End> EpisodeIndex::at(std::int64_t env, std::int64_t step) const {
  const std::optional<End> found = after(env, step);
  return found && found->step == step ? found : std::nullopt;
}

std::optional<EpisodeIndex::End> EpisodeIndex::before(std::int64_t env, std::int64_t step) const {
  const Queue& queue = by_env_[static_cast<std::size_t>(env)];
  const auto found = find(queue, step);
  if (found == queue.ends.begin() + static_cast<std::ptrdiff_t>(queue.first)) return std::nullopt;
  return *std::prev(found);
}

std::uint64_t EpisodeIndex::bytes() const {
  std::uint64_t bytes = by_env_.size() * sizeof(Queue);
  for (const Queue& queue : by_env_) bytes += queue.ends.capacity() * sizeof(End);
  return bytes;
}

}  // namespace tandem::rl
