#include "tandem/rl/replay/goal_relabelling.h"

#include <algorithm>
#include <utility>

namespace tandem::rl {

GoalRelabelling::GoalRelabelling(const Spec& spec, HindsightOptions options)
    : options_(std::move(options)), achieved_(goal_leaves(spec).achieved), desired_(goal_leaves(spec).desired) {}

void GoalRelabelling::relabel(const StepStore& store, std::span<const DrawnRow> rows, Philox& random,
                              DrawnWindows& windows) {
  const std::size_t bytes = store.plan().leaves[achieved_].shown_bytes();
  const auto goals = static_cast<std::uint64_t>(options_.goals);
  goals_.goal_of.assign(rows.size(), DrawnGoals::kNone);
  goals_.goals.clear();
  for (auto* memory : {&reached_, &wanted_}) memory->clear();
  places_.clear();
  reward_.clear();
  terminated_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (random.below(goals + 1) == goals) continue;
    goals_.goal_of[i] = static_cast<std::int64_t>(goals_.goals.size() / bytes);
    goals_.goals.resize(goals_.goals.size() + bytes);
    const std::int64_t step = choose_step(store, rows[i], random);
    store.copy_next_observation(achieved_, step, rows[i].env, goals_.goals.data() + goals_.goals.size() - bytes);
    gather(store, i, rows[i], windows);
  }
  reward_anew(windows);
}

std::int64_t GoalRelabelling::choose_step(const StepStore& store, const DrawnRow& row, Philox& random) const {
  const auto end = store.episodes().after(row.env, row.step);
  const std::int64_t last = end ? end->step : store.now() - 1;
  if (options_.strategy == GoalStrategy::kFinal) return last;
  std::int64_t first = row.step;
  if (options_.strategy == GoalStrategy::kEpisode) {
    const auto before = store.episodes().before(row.env, row.step);
    first = std::max(store.oldest(), before ? before->step + 1 : 0);
  }
  return first + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last - first + 1)));
}

void GoalRelabelling::gather(const StepStore& store, std::size_t row, const DrawnRow& drawn,
                             const DrawnWindows& windows) {
  const std::size_t bytes = store.plan().leaves[achieved_].shown_bytes();
  for (std::int64_t k = 0; k < windows.steps[row]; ++k) {
    const std::size_t place = row * static_cast<std::size_t>(windows.n_step) + static_cast<std::size_t>(k);
    places_.push_back(place);
    reward_.push_back(windows.reward[place]);
    terminated_.push_back((windows.end[place] & kStepTerminated) != 0 ? 1 : 0);
    reached_.resize(reached_.size() + bytes);
    store.copy_next_observation(achieved_, drawn.step + k, drawn.env, reached_.data() + reached_.size() - bytes);
    wanted_.insert(wanted_.end(), goals_.goals.end() - static_cast<std::ptrdiff_t>(bytes), goals_.goals.end());
  }
}

// All at once, since the function may be somebody's vectorised one. Where an episode ended, it ended also under the new
// goal; only whether the task was done may have changed.
void GoalRelabelling::reward_anew(DrawnWindows& windows) {
  if (places_.empty()) return;
  options_.reward({.rows = static_cast<std::int64_t>(places_.size()),
                   .achieved = reached_.data(),
                   .desired = wanted_.data(),
                   .reward = reward_.data(),
                   .terminated = terminated_.data()});
  for (std::size_t i = 0; i < places_.size(); ++i) {
    windows.reward[places_[i]] = reward_[i];
    std::uint8_t& end = windows.end[places_[i]];
    if (terminated_[i] != 0) {
      end = kStepTerminated;
    } else if (end != 0) {
      end = kStepTruncated;
    }
  }
}

}  // namespace tandem::rl
