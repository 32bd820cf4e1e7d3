#include "tandem/rl/replay/sample_writer.h"

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// How many rows ahead memory is asked for: what a core can have under way.
constexpr std::size_t kRowsAhead = 6;

void check_sample_arrays(const StorePlan& plan, const SampleArrays& into) {
  for (const auto* leaves : {&into.observation, &into.next_observation}) {
    TANDEM_EXPECTS(leaves->empty() || leaves->size() == plan.leaves.size(), "replay: ", leaves->size(),
                   " observation arrays; there are ", plan.leaves.size(), " leaves");
  }
  TANDEM_EXPECTS((plan.is_discrete ? into.box == nullptr : into.discrete == nullptr), "replay: actions are ",
                 plan.is_discrete ? "discrete" : "box", ", and an array for the others is given");
  TANDEM_EXPECTS(plan.mask_bytes > 0 || (into.action_mask == nullptr && into.next_action_mask == nullptr),
                 "replay: the environments have no action masks, and an array for them is given");
}

}  // namespace

SampleWriter::SampleWriter(const Spec& spec, const ReplayOptions& options)
    : n_step_(options.n_step), gamma_(options.gamma) {
  if (options.hindsight) relabelling_.emplace(spec, *options.hindsight);
}

void SampleWriter::write(const StepStore& store, std::span<const DrawnRow> rows, Philox& random,
                         const ClippedScale& scale, const SampleArrays& into) {
  check_sample_arrays(store.plan(), into);
  read_windows(store, rows);
  if (relabelling_) relabelling_->relabel(store, rows, random, windows_);
  sum_windows(rows.size(), scale);
  write_numbers(store, rows, into);
  write_observations(store, rows, into);
}

// Asks for the memory of everything that the later steps read, too: it fits into the second level of the cache.
void SampleWriter::read_windows(const StepStore& store, std::span<const DrawnRow> rows) {
  const auto n = static_cast<std::size_t>(n_step_);
  windows_.n_step = n_step_;
  windows_.steps.resize(rows.size());
  windows_.reward.resize(rows.size() * n);
  windows_.end.resize(rows.size() * n);
  for (std::size_t i = 0; i < std::min(kRowsAhead, rows.size()); ++i)
    store.prefetch(rows[i].step, rows[i].env, n_step_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kRowsAhead < rows.size()) store.prefetch(rows[i + kRowsAhead].step, rows[i + kRowsAhead].env, n_step_);
    std::size_t k = 0;
    do {
      const std::int64_t step = rows[i].step + static_cast<std::int64_t>(k);
      windows_.reward[i * n + k] = store.reward(step, rows[i].env);
      windows_.end[i * n + k] = store.end_of(step, rows[i].env);
      ++k;
    } while (k < n && windows_.end[i * n + k - 1] == 0);
    windows_.steps[i] = static_cast<std::int64_t>(k);
  }
}

void SampleWriter::sum_windows(std::size_t rows, const ClippedScale& scale) {
  sums_.resize(rows);
  const auto n = static_cast<std::size_t>(n_step_);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto steps = static_cast<std::size_t>(windows_.steps[i]);
    for (double& reward : std::span(windows_.reward).subspan(i * n, steps)) reward = scale.of(reward);
    sums_[i] = n_step_return(std::span(windows_.reward).subspan(i * n, steps),
                             std::span(windows_.end).subspan(i * n, steps), gamma_);
  }
}

void SampleWriter::write_numbers(const StepStore& store, std::span<const DrawnRow> rows,
                                 const SampleArrays& into) const {
  const StorePlan& plan = store.plan();
  auto* const actions =
      plan.is_discrete ? reinterpret_cast<std::byte*>(into.discrete) : reinterpret_cast<std::byte*>(into.box);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [step, env, weight] = rows[i];
    const std::int64_t last = step + sums_[i].steps - 1;
    if (actions != nullptr) store.copy_action(step, env, actions + i * plan.action_bytes);
    if (into.reward != nullptr) into.reward[i] = sums_[i].reward;
    if (into.discount != nullptr) into.discount[i] = sums_[i].discount;
    if (into.weight != nullptr) into.weight[i] = weight;
    if (into.row != nullptr) into.row[i] = step * plan.envs + env;
    if (into.action_mask != nullptr) store.copy_mask(step, env, into.action_mask + i * plan.mask_bytes);
    if (into.next_action_mask != nullptr) store.copy_next_mask(last, env, into.next_action_mask + i * plan.mask_bytes);
  }
}

void SampleWriter::write_observations(const StepStore& store, std::span<const DrawnRow> rows,
                                      const SampleArrays& into) const {
  for (std::size_t l = 0; l < store.plan().leaves.size(); ++l) {
    const std::size_t bytes = store.plan().leaves[l].shown_bytes();
    std::byte* const now = into.observation.empty() ? nullptr : into.observation[l];
    std::byte* const next = into.next_observation.empty() ? nullptr : into.next_observation[l];
    for (std::size_t i = 0; now != nullptr && i < rows.size(); ++i)
      store.copy_observation(l, rows[i].step, rows[i].env, now + i * bytes);
    for (std::size_t i = 0; next != nullptr && i < rows.size(); ++i)
      store.copy_next_observation(l, rows[i].step + sums_[i].steps - 1, rows[i].env, next + i * bytes);
    if (!relabelling_ || relabelling_->desired_leaf() != l) continue;
    if (now != nullptr) write_goals(bytes, now);
    if (next != nullptr) write_goals(bytes, next);
  }
}

void SampleWriter::write_goals(std::size_t bytes, std::byte* into) const {
  const DrawnGoals& drawn = relabelling_->goals();
  for (std::size_t i = 0; i < drawn.goal_of.size(); ++i) {
    if (drawn.goal_of[i] == DrawnGoals::kNone) continue;
    std::memcpy(into + i * bytes, drawn.goals.data() + static_cast<std::size_t>(drawn.goal_of[i]) * bytes, bytes);
  }
}

}  // namespace tandem::rl
