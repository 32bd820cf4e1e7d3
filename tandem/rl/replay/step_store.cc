#include "tandem/rl/replay/step_store.h"

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/rl/replay/replay_mapping.h"

// What is written. step_rows.cc reads rows, step_checks.cc has the checks before writing, step_state.cc snapshots.
namespace tandem::rl {
namespace {

// One piece of memory for both rings, the steps' first.
std::shared_ptr<std::byte> ends_memory(const std::shared_ptr<std::byte>& all, const StorePlan& plan) {
  return {all, all.get() + plan.steps.bytes()};
}

// A segment of ends may have many ends of one environment, so all the steps between are given up together.
std::int64_t step_of_row(const std::byte* row, std::int64_t envs) {
  std::int64_t number = 0;
  std::memcpy(&number, row, sizeof(number));
  return number / envs;
}

}  // namespace

StepStore::StepStore(const Spec& spec, int envs, const ReplayOptions& options)
    : StepStore(spec, options.kept_ends, StorePlan(spec, envs, options), options.memory) {}

StepStore::StepStore(const Spec& spec, KeptEnds kept_ends, const StorePlan& plan, const ReplayMemory& memory)
    : StepStore(spec, kept_ends, plan, map_replay(memory, plan.steps.bytes() + plan.ends.bytes())) {}

StepStore::StepStore(Spec spec, KeptEnds kept_ends, StorePlan plan, const std::shared_ptr<std::byte>& memory)
    : spec_(std::move(spec)),
      kept_ends_(kept_ends),
      plan_(std::move(plan)),
      steps_("steps", plan_.steps, memory),
      ends_("ends", plan_.ends, ends_memory(memory, plan_)),
      episodes_(plan_.envs) {}

// The episodes under way end with the present observation, which the new ones then replace. All that changes is in
// record now(), so it is no matter whether a snapshot shares the records before it.
void StepStore::begin(const EnvArrays& first) {
  check_arrays(first);
  for (std::size_t l = 0; l < plan_.leaves.size(); ++l) {
    for (std::int64_t env = 0; env < plan_.envs; ++env) check_first(l, first.observation[l], env);
  }
  if (!has_begun()) push_step();
  for (std::int64_t env = 0; now() > 0 && env < plan_.envs; ++env) {
    if (end_of(now() - 1, env) != 0) continue;
    steps_.at(plan_.flags, now())[env] = std::byte{kStepTruncated};
    const std::int64_t end = push_end(env);
    for (std::size_t l = 0; l < plan_.leaves.size(); ++l) {
      const std::size_t bytes = plan_.leaves[l].frame_bytes;
      std::memcpy(ends_.at(l, end), row_of(l, bytes, now(), env), bytes);
    }
  }
  write_observation(first);
  give_up_oldest();
}

void StepStore::append(const EnvActions& actions, const EnvArrays& step) {
  check_actions(actions);
  check_step(step);
  write_actions(actions, step.reward);
  push_step();
  std::byte* const flags = steps_.at(plan_.flags, now());
  for (std::int64_t env = 0; env < plan_.envs; ++env) {
    const std::uint8_t end = step_end(step.terminated[env], step.truncated[env]);
    flags[env] = std::byte{end};
    if (!is_kept(end)) continue;
    const std::int64_t record = push_end(env);
    for (std::size_t l = 0; l < plan_.leaves.size(); ++l) {
      const std::size_t row = static_cast<std::size_t>(env) * plan_.leaves[l].given_bytes;
      write_frames(l, step.final_observation[l] + row, 1, ends_.at(l, record));
    }
  }
  write_observation(step);
  give_up_oldest();
}

void StepStore::write_actions(const EnvActions& actions, const double* reward) {
  const void* const from = plan_.is_discrete ? static_cast<const void*>(actions.discrete) : actions.box;
  const auto rows = static_cast<std::size_t>(plan_.envs);
  std::memcpy(steps_.at(plan_.action, now()), from, rows * plan_.action_bytes);
  std::memcpy(steps_.at(plan_.reward, now()), reward, rows * sizeof(double));
}

// The record's action and reward come with the next step. Until then they are zeros, so that a snapshot of the same
// past has the same bytes.
void StepStore::push_step() {
  steps_.push();
  const auto rows = static_cast<std::size_t>(plan_.envs);
  std::memset(steps_.at(plan_.action, now()), 0, rows * plan_.action_bytes);
  std::memset(steps_.at(plan_.reward, now()), 0, rows * sizeof(double));
  std::memset(steps_.at(plan_.flags, now()), 0, rows);
}

void StepStore::write_observation(const EnvArrays& from) {
  for (std::size_t l = 0; l < plan_.leaves.size(); ++l)
    write_frames(l, from.observation[l], plan_.envs, steps_.at(l, now()));
  if (plan_.mask_bytes > 0)
    std::memcpy(steps_.at(plan_.mask, now()), from.action_mask,
                static_cast<std::size_t>(plan_.envs) * plan_.mask_bytes);
}

// Of rows as environments write them, what is stored.
void StepStore::write_frames(std::size_t leaf, const std::byte* given, std::int64_t rows, std::byte* into) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  const auto count = static_cast<std::size_t>(rows);
  if (its.is_narrowed) {
    for (std::size_t i = 0; i < count * its.frame_bytes / sizeof(float); ++i) {
      double number = 0;
      std::memcpy(&number, given + i * sizeof(double), sizeof(double));
      const auto narrow = static_cast<float>(number);
      std::memcpy(into + i * sizeof(float), &narrow, sizeof(float));
    }
  } else if (its.is_stack()) {
    const std::size_t older = its.given_bytes - its.frame_bytes;
    for (std::size_t row = 0; row < count; ++row)
      std::memcpy(into + row * its.frame_bytes, given + row * its.given_bytes + older, its.frame_bytes);
  } else {
    std::memcpy(into, given, count * its.frame_bytes);
  }
}

std::int64_t StepStore::push_end(std::int64_t env) {
  const std::int64_t last = now() - 1;
  if (ends_.is_full()) {
    const std::int64_t newest_dropped = ends_.first() + plan_.ends.records_of_segment() - 1;
    after_dropped_end_ = step_of_row(ends_.at(plan_.end_row, newest_dropped), plan_.envs) + 1;
  }
  ends_.push();
  const std::int64_t record = ends_.end() - 1, row = last * plan_.envs + env;
  std::memcpy(ends_.at(plan_.end_row, record), &row, sizeof(row));
  episodes_.add(env, {.step = last, .record = record}, oldest_);
  return record;
}

void StepStore::give_up_oldest() { oldest_ = std::max({oldest_, now() - plan_.steps_held, after_dropped_end_}); }

void StepStore::clear() {
  steps_.clear();
  ends_.clear();
  episodes_.clear();
  oldest_ = after_dropped_end_ = 0;
}

std::uint64_t StepStore::bytes() const {
  return plan_.steps.bytes() + plan_.ends.bytes() + steps_.heap_bytes() + ends_.heap_bytes() + episodes_.bytes();
}

}  // namespace tandem::rl
