#include "tandem/rl/env/isolated/isolated_envs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/env_faults.h"

namespace tandem::rl {

IsolatedEnvs::IsolatedEnvs(Spec spec, int count, IsolationOptions options, std::shared_ptr<RestartBudget> budget)
    : spec_(std::move(spec)),
      options_(std::move(options)),
      budget_(std::move(budget)),
      layout_(layout_of(spec_, count, static_cast<std::uint32_t>(options_.spin.limit.count()))),
      task_(options_.task) {
  held_->origins.resize(static_cast<std::size_t>(count));
  task_.environments = count;
  if (budget_) task_.restarts = budget_->limit();
  if (!budget_) return;
  for (const LeafEntry& leaf : layout_.leaves) seen_.leaves.emplace_back(leaf.row_bytes * rows());
  seen_.mask.resize(rows() * layout_.table.mask_elements);
  held_->fresh = seen_;
}

WorkerLink& IsolatedEnvs::link() const {
  if (!held_->link) {
    auto started = std::make_unique<WorkerLink>(layout_, options_, budget_.get());
    started->begin(task_);
    held_->link = std::move(started);
    held_->link->set_progress(held_->progress);
  }
  return *held_->link;
}

void IsolatedEnvs::begin_episodes() const {
  WorkerLink& worker = link();
  const RegionTable& table = layout_.table;
  for (std::size_t e = 0; e < rows(); ++e) {
    worker.region().array<std::uint64_t>(table.seeds)[e] = held_->origins[e].seed;
    worker.region().array<std::uint64_t>(table.failures)[e] = held_->origins[e].failures;
    worker.region().array<std::uint64_t>(table.start_seeds)[e] = held_->origins[e].start_seed();
  }
  (void)worker.call(WorkerCommand::kReset);
}

void IsolatedEnvs::count_failures() const {
  WorkerLink& worker = *held_->link;
  if (worker.granted() == 0) return;
  for (std::size_t e = 0; e < rows(); ++e) {
    std::uint64_t& known = held_->origins[e].failures;
    const std::uint64_t its =
        static_cast<const volatile std::uint64_t&>(worker.region().array<std::uint64_t>(layout_.table.failures)[e]);
    if (its < known || its - known > worker.granted()) {
      worker.fail(concat("says that environment ", e, " has failed ", its, " times; ", known, " to ",
                         known + worker.granted(), " are known"));
    }
    known = its;
  }
}

void IsolatedEnvs::restart(std::string what) const {
  for (;;) {
    const std::uint64_t failures = 1 + (held_->link ? held_->link->granted() : 0);
    held_->link.reset();
    if (!budget_) throw EnvError(concat(spec_.id, ": ", what, "; with env_restarts it would be started again"));
    if (!budget_->take(what)) throw EnvError(concat(spec_.id, ": ", no_restart_is_left(what, budget_->limit())));
    for (EnvOrigin& origin : held_->origins) origin.failures += failures;
    try {
      begin_episodes();
      EnvArrays fresh;
      for (std::vector<std::byte>& leaf : held_->fresh.leaves) fresh.observation.push_back(leaf.data());
      fresh.action_mask = held_->fresh.mask.data();
      copy_shown(all_rows(), fresh);
      return count_failures();
    } catch (const WorkerLost& lost) {
      what = lost.what();
    } catch (const ConfigError& refused) {
      what = refused.what();  // it has taken the same task before, so that is no mistake of the user's
    }
  }
}

void IsolatedEnvs::reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) {
  TANDEM_CHECK(seeds.size() == rows(), spec_.id, ": ", seeds.size(), " seeds for ", rows());
  for (std::size_t e = 0; e < rows(); ++e) held_->origins[e] = {.seed = seeds[e]};
  held_->is_cut_short = false;
  try {
    begin_episodes();
    copy_shown(all_rows(), out);
    count_failures();
    return remember(out);
  } catch (const WorkerLost& lost) {
    restart(lost.what());
  }
  show_fresh(out);
}

void IsolatedEnvs::step(const EnvActions& actions, const EnvArrays& out) {
  begin_step({}, actions);
  end_step({}, out);
}

// The window has a byte for each environment.
bool IsolatedEnvs::can_step_rows() const { return rows() <= kWindowBytes && link().can_step_rows(); }

void IsolatedEnvs::step_rows(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) {
  TANDEM_CHECK(which.size() == rows() && rows() <= kWindowBytes, spec_.id, ": ", which.size(), " rows for ", rows());
  begin_step(which, actions);
  end_step(which, out);
}

// Actions are checked first: a bad action is the caller's fault and must not cost a worker.
void IsolatedEnvs::begin_step(std::span<const RowStep> which, const EnvActions& actions) {
  check_actions(spec_, rows(), actions);
  if (std::exchange(held_->is_cut_short, false)) return;
  try {
    WorkerLink& worker = link();
    const void* const from = actions.box != nullptr ? static_cast<const void*>(actions.box) : actions.discrete;
    const std::size_t size = actions.box != nullptr ? sizeof(float) : sizeof(std::int64_t);
    std::memcpy(worker.region().at(layout_.table.actions), from, rows() * layout_.table.action_elements * size);
    if (!which.empty()) std::memcpy(worker.region().at(layout_.table.window), which.data(), which.size_bytes());
    worker.start(which.empty() ? WorkerCommand::kStep : WorkerCommand::kStepRows);
    held_->is_stepping = true;
  } catch (const WorkerLost& lost) {
    restart(lost.what());
  }
}

void IsolatedEnvs::end_step(std::span<const RowStep> which, const EnvArrays& out) {
  if (std::exchange(held_->is_stepping, false)) {
    try {
      (void)link().finish();
      if (which.empty()) copy_step(all_rows(), out);
      for (std::size_t e = 0; e < which.size(); ++e) {
        if (which[e] != RowStep::kRest) copy_step({.first = e, .count = 1}, out);
      }
      count_failures();
      remember(out);
      return tell_ends(which, out);
    } catch (const WorkerLost& lost) {
      restart(lost.what());
    }
  }
  end_episodes(which, out);
}

void IsolatedEnvs::set_progress(double share) {
  held_->progress = share;
  // A worker that is lost shows itself in the next step.
  try {
    if (held_->link) held_->link->set_progress(share);
  } catch (const WorkerLost& lost) {
    restart(lost.what());
    held_->is_cut_short = true;
  }
}

bool IsolatedEnvs::can_reward_goals() const { return link().can_reward_goals(); }

std::vector<std::byte> IsolatedEnvs::told_of_goals(std::int64_t rows, std::span<const std::byte> input) {
  for (;;) {
    try {
      WorkerLink& worker = link();
      worker.give(input);
      const std::uint64_t bytes = worker.call(WorkerCommand::kRewardGoals, static_cast<std::uint64_t>(rows));
      if (const std::uint64_t due = static_cast<std::uint64_t>(rows) * (sizeof(double) + 1); bytes != due)
        worker.fail(concat("says that the rewards of ", rows, " goals have ", bytes, " bytes; ", due, " were due"));
      return worker.take(bytes);
    } catch (const WorkerLost& lost) {
      restart(lost.what());
      held_->is_cut_short = true;
    }
  }
}

// What the worker gives is copied first, and judged then.
void IsolatedEnvs::reward_goals(const GoalRows& its) {
  const auto count = static_cast<std::size_t>(its.rows);
  const std::size_t goals = count * spec_.observation[goal_leaves(spec_).achieved].bytes();
  std::vector<std::byte> input(2 * goals + count);
  std::memcpy(input.data(), its.achieved, goals);
  std::memcpy(input.data() + goals, its.desired, goals);
  std::memcpy(input.data() + 2 * goals, its.terminated, count);
  const std::vector<std::byte> told = told_of_goals(its.rows, input);
  std::memcpy(its.reward, told.data(), count * sizeof(double));
  std::memcpy(its.terminated, told.data() + count * sizeof(double), count);
  if (const auto at = first_not_finite(std::span<const double>(its.reward, count)))
    throw EnvError(concat(spec_.id, ": its reward of a goal is ", its.reward[*at]));
  for (std::size_t i = 0; i < count; ++i) {
    if (its.terminated[i] > 1) throw EnvError(concat(spec_.id, ": its end at a goal is ", int{its.terminated[i]}));
  }
}

bool IsolatedEnvs::can_save() const { return link().can_save(); }

std::vector<std::byte> IsolatedEnvs::save() const {
  if (held_->is_cut_short) return {};
  try {
    return link().take(link().call(WorkerCommand::kSave));
  } catch (const WorkerLost& lost) {
    restart(lost.what());
    held_->is_cut_short = true;
  }
  return {};
}

void IsolatedEnvs::load(std::span<const std::byte> state, const EnvArrays& out) {
  WorkerLink& worker = link();
  worker.give(state);
  (void)worker.call(WorkerCommand::kLoad);
  held_->is_cut_short = false;
  const RegionTable& table = layout_.table;
  for (std::size_t e = 0; e < rows(); ++e) {
    held_->origins[e] = {.seed = worker.region().array<std::uint64_t>(table.seeds)[e],
                         .failures = worker.region().array<std::uint64_t>(table.failures)[e]};
  }
  copy_shown(all_rows(), out);
  remember(out);
}

bool IsolatedEnvs::can_render() const { return link().can_draw(); }

// What the worker gives is copied first, and judged then.
void IsolatedEnvs::render(int env, Canvas& canvas) const {
  if (!can_render()) return EnvGroup::render(env, canvas);
  constexpr std::uint64_t kMostBytes = 8 + std::uint64_t{3} * Canvas::kMostPixels * Canvas::kMostPixels;
  const auto e = static_cast<std::uint64_t>(env);
  const std::uint64_t bytes = link().call(WorkerCommand::kRender, shows_end_ ? e + kEndOfEpisode : e);
  if (bytes > kMostBytes) link().fail(concat("says that a picture has ", bytes, " bytes; ", kMostBytes, " may be"));
  const std::vector<std::byte> drawn = link().take(bytes);
  std::array<std::uint32_t, 2> extent{};
  if (drawn.size() < sizeof(extent)) link().fail("drew a picture without a height and a width");
  std::memcpy(extent.data(), drawn.data(), sizeof(extent));
  const std::span<const std::byte> pixels = std::span(drawn).subspan(sizeof(extent));
  const auto most = static_cast<std::uint32_t>(Canvas::kMostPixels);
  if (std::max(extent[0], extent[1]) > most || pixels.size() != std::size_t{3} * extent[0] * extent[1])
    link().fail(concat("drew a picture of ", extent[0], " x ", extent[1], " pixels in ", pixels.size(), " bytes"));
  canvas.image({reinterpret_cast<const std::uint8_t*>(pixels.data()), pixels.size()}, static_cast<int>(extent[0]),
               static_cast<int>(extent[1]));
}

void IsolatedEnvs::tell_ends(std::span<const RowStep> which, const EnvArrays& out) {
  for (std::size_t e = 0; at_end_ && e < rows(); ++e) {
    if (!makes_a_step(which, e) || (out.terminated[e] == 0 && out.truncated[e] == 0)) continue;
    shows_end_ = true;
    try {
      at_end_(static_cast<int>(e));
    } catch (...) {
      shows_end_ = false;
      throw;
    }
    shows_end_ = false;
  }
}

void IsolatedEnvs::blame(std::size_t env, const std::string& what) const {
  const std::size_t first = task_.part ? static_cast<std::size_t>(task_.part->first) : 0;
  held_->link->fail(concat("wrote, for environment ", first + env, ", what its spec does not allow: ", what));
}

// Judged after it was copied: the worker may change its memory at any time.
void IsolatedEnvs::copy_shown(const Rows& its, const EnvArrays& out) const {
  const EnvRegion& region = link().region();
  for (std::size_t l = 0; l < layout_.leaves.size(); ++l) {
    const LeafEntry& entry = layout_.leaves[l];
    const std::size_t at_row = its.first * entry.row_bytes;
    std::memcpy(out.observation[l] + at_row, region.at(entry.observation) + at_row, its.count * entry.row_bytes);
    const Leaf& leaf = spec_.observation[l];
    if (const auto at = first_wrong_element(leaf, out.observation[l] + at_row, its.count))
      blame(its.first + *at / static_cast<std::size_t>(leaf.count()),
            describe_element(leaf, out.observation[l] + at_row, *at));
  }
  if (!spec_.has_action_mask) return;
  const std::size_t options = layout_.table.mask_elements;
  std::memcpy(out.action_mask + its.first * options, region.at(layout_.table.mask) + its.first * options,
              its.count * options);
  for (std::size_t e = its.first; e < its.first + its.count; ++e) {
    try {
      check_mask(spec_.action, {out.action_mask + e * options, options});
    } catch (const EnvError& error) {
      blame(e, error.what());
    }
  }
}

void IsolatedEnvs::copy_step(const Rows& its, const EnvArrays& out) const {
  const EnvRegion& region = link().region();
  const RegionTable& table = layout_.table;
  std::memcpy(out.reward + its.first, region.array<double>(table.reward) + its.first, its.count * sizeof(double));
  std::memcpy(out.terminated + its.first, region.at(table.terminated) + its.first, its.count);
  std::memcpy(out.truncated + its.first, region.at(table.truncated) + its.first, its.count);
  if (const auto at = first_not_finite(std::span<const double>(out.reward + its.first, its.count)))
    blame(its.first + *at, concat("its reward is ", out.reward[its.first + *at]));
  for (std::size_t e = its.first; e < its.first + its.count; ++e) {
    const unsigned most = std::max(unsigned{out.terminated[e]}, unsigned{out.truncated[e]});
    if (most > 1) blame(e, concat("a flag of an episode's end is ", most, "; they are 0 or 1"));
  }
  copy_ends(its, out);
  copy_shown(its, out);
}

void IsolatedEnvs::copy_ends(const Rows& its, const EnvArrays& out) const {
  const EnvRegion& region = link().region();
  for (std::size_t e = its.first; e < its.first + its.count; ++e) {
    if (out.terminated[e] == 0 && out.truncated[e] == 0) continue;
    for (std::size_t l = 0; l < out.final_observation.size(); ++l) {
      const LeafEntry& entry = layout_.leaves[l];
      std::byte* const row = out.final_observation[l] + e * entry.row_bytes;
      std::memcpy(row, region.at(entry.final_observation) + e * entry.row_bytes, entry.row_bytes);
      if (const auto at = first_wrong_element(spec_.observation[l], row, 1))
        blame(e, describe_element(spec_.observation[l], row, *at));
    }
    const std::size_t metrics = spec_.metrics.size();
    if (out.metrics == nullptr || metrics == 0) continue;
    double* const values = out.metrics + e * metrics;
    std::memcpy(values, region.array<double>(layout_.table.metric_values) + e * metrics, metrics * sizeof(double));
    const auto infinite = std::find_if(values, values + metrics, [](double value) { return std::isinf(value); });
    if (infinite != values + metrics)
      blame(e,
            concat("its metric ", spec_.metrics[static_cast<std::size_t>(infinite - values)].name, " is ", *infinite));
  }
}

// The step that was lost, as RestartingEnvs writes it of an environment that fails. An environment that rested shows
// the begin of another episode than before, and nothing else of it changes.
void IsolatedEnvs::end_episodes(std::span<const RowStep> which, const EnvArrays& out) {
  for (std::size_t e = 0; e < rows(); ++e) {
    if (!makes_a_step(which, e)) continue;
    for (std::size_t l = 0; l < out.final_observation.size(); ++l) {
      const std::size_t bytes = layout_.leaves[l].row_bytes;
      std::memcpy(out.final_observation[l] + e * bytes, seen_.leaves[l].data() + e * bytes, bytes);
    }
    out.reward[e] = 0;
    out.terminated[e] = 0;
    out.truncated[e] = 1;
    if (out.metrics != nullptr)
      std::fill_n(out.metrics + e * spec_.metrics.size(), spec_.metrics.size(),
                  std::numeric_limits<double>::quiet_NaN());
  }
  show_fresh(out);
}

void IsolatedEnvs::show_fresh(const EnvArrays& out) {
  const Shown& fresh = held_->fresh;
  for (std::size_t l = 0; l < fresh.leaves.size(); ++l)
    std::memcpy(out.observation[l], fresh.leaves[l].data(), fresh.leaves[l].size());
  if (spec_.has_action_mask) std::ranges::copy(fresh.mask, out.action_mask);
  remember(out);
}

void IsolatedEnvs::remember(const EnvArrays& out) {
  if (!budget_) return;
  for (std::size_t l = 0; l < seen_.leaves.size(); ++l)
    std::memcpy(seen_.leaves[l].data(), out.observation[l], seen_.leaves[l].size());
}

}  // namespace tandem::rl
