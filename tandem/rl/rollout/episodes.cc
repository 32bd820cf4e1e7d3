#include "tandem/rl/rollout/episodes.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace tandem::rl {

EpisodeTracker::EpisodeTracker(int rows, int first_row)
    : running_return(static_cast<std::size_t>(rows), 0.0),
      running_length(static_cast<std::size_t>(rows), 0),
      first_row_(first_row) {}

void EpisodeTracker::record(int step, const double* reward, const std::uint8_t* terminated,
                            const std::uint8_t* truncated, std::span<const double> metrics) {
  for (std::size_t row = 0; row < running_return.size(); ++row) {
    running_return[row] += reward[row];
    ++running_length[row];
    if (terminated[row] == 0 && truncated[row] == 0) continue;
    // Finished episodes keep the row's number in the run, so nobody has to know the group.
    Episode& its = finished_.emplace_back(
        Episode{running_return[row], running_length[row], step, first_row_ + static_cast<int>(row), {}});
    const std::size_t per_row = metrics.size() / running_return.size();
    const std::span<const double> values = metrics.subspan(row * per_row, per_row);
    its.metrics.assign(values.begin(), values.end());
    running_return[row] = 0;
    running_length[row] = 0;
  }
}

void EpisodeTracker::keep_within(std::span<const int> steps) {
  std::erase_if(finished_, [&](const Episode& episode) {
    return episode.step >= steps[static_cast<std::size_t>(episode.row - first_row_)];
  });
}

// Sorting by (step, row) makes the window independent of how env groups are spread over replicas and ranks.
void EpisodeWindow::add(std::span<Episode> episodes) {
  std::sort(episodes.begin(), episodes.end(),
            [](const Episode& a, const Episode& b) { return std::tie(a.step, a.row) < std::tie(b.step, b.row); });
  total_ += static_cast<std::int64_t>(episodes.size());
  if (told_) {
    for (const Episode& episode : episodes) told_(episode);
  }
  episodes_.insert(episodes_.end(), episodes.begin(), episodes.end());
  if (episodes_.size() > capacity_)
    episodes_.erase(episodes_.begin(), episodes_.end() - static_cast<std::ptrdiff_t>(capacity_));
}

double EpisodeWindow::mean_return() const {
  double sum = 0;
  for (const Episode& episode : episodes_) sum += episode.episode_return;
  return episodes_.empty() ? 0 : sum / static_cast<double>(episodes_.size());
}

double EpisodeWindow::mean_length() const {
  double sum = 0;
  for (const Episode& episode : episodes_) sum += static_cast<double>(episode.length);
  return episodes_.empty() ? 0 : sum / static_cast<double>(episodes_.size());
}

std::optional<double> EpisodeWindow::mean_metric(std::size_t metric) const {
  double sum = 0;
  std::size_t known = 0;
  for (const Episode& episode : episodes_) {
    if (metric >= episode.metrics.size() || std::isnan(episode.metrics[metric])) continue;
    sum += episode.metrics[metric];
    ++known;
  }
  return known == 0 ? std::nullopt : std::optional(sum / static_cast<double>(known));
}

void EpisodeWindow::restore(std::vector<Episode> episodes, std::int64_t total) {
  episodes_ = std::move(episodes);
  total_ = total;
}

}  // namespace tandem::rl
