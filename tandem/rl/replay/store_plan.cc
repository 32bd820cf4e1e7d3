#include "tandem/rl/replay/store_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/leaf_map.h"
#include "tandem/rl/replay/sum_tree.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
constexpr int kMostNStep = 1000;
// A snapshot copies the newest segment, and a part has room for one more than it holds: small segments make both cheap,
// and large ones make few files.
constexpr std::size_t kSegmentBytes = std::size_t{2} << 20;
constexpr std::int64_t kLeastSegments = 32;
constexpr std::int64_t kRowsOfAnEnd = 32;  // of environments without a time limit

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// The most records of a segment, a power of two, so that both bounds above are kept.
int shift_of(std::int64_t records, std::size_t record_bytes) {
  int shift = 0;
  while ((std::int64_t{2} << shift) * kLeastSegments <= records && (record_bytes << (shift + 1)) <= kSegmentBytes)
    ++shift;
  return shift;
}

RingPlan ring_plan(std::vector<Column> columns, std::int64_t records) {
  std::size_t record_bytes = 0;
  for (const Column& column : columns) record_bytes += column.bytes;
  RingPlan plan{.columns = std::move(columns), .shift = shift_of(records, record_bytes)};
  plan.segments = static_cast<std::size_t>(divided_up(records, plan.records_of_segment())) + 1;
  return plan;
}

StoredLeaf stored_leaf(const Leaf& leaf, const LeafStorage& storage) {
  StoredLeaf stored{.shown = leaf,
                    .given_bytes = leaf.bytes(),
                    .frame_bytes = leaf.bytes() / static_cast<std::size_t>(storage.frames),
                    .frames = static_cast<std::size_t>(storage.frames),
                    .padding = storage.padding,
                    .zero_frame = {},
                    .is_narrowed = storage.numbers == StoredNumbers::kFloat32};
  if (stored.is_narrowed) {
    stored.shown.type = ElementType::kFloat32;
    stored.frame_bytes /= 2;
  }
  if (stored.is_stack() && storage.padding == StackPadding::kZero) stored.zero_frame = zero_frame(leaf, stored.frames);
  return stored;
}

void leaf_faults(const Spec& spec, const ReplayOptions& options, std::vector<std::string>& faults) {
  if (options.leaves.empty()) return;
  if (options.leaves.size() != spec.observation.size()) {
    faults.push_back(concat("replay: storage is given for ", options.leaves.size(), " leaves, and ", spec.id, " has ",
                            spec.observation.size()));
    return;
  }
  for (std::size_t l = 0; l < options.leaves.size(); ++l) {
    const LeafStorage& storage = options.leaves[l];
    const Leaf& leaf = spec.observation[l];
    const std::int64_t channels = leaf.shape.empty() ? 1 : leaf.shape[0];
    const bool is_narrowed = storage.numbers == StoredNumbers::kFloat32;
    if (is_narrowed && leaf.type != ElementType::kFloat64)
      faults.push_back(concat("replay: leaf ", describe(leaf), " cannot be narrowed; only float64 leaves can"));
    if (storage.frames < 1 || storage.frames > kMostStackFrames || channels % std::max(storage.frames, 1) != 0) {
      faults.push_back(concat("replay: leaf ", describe(leaf), " as a stack of ", storage.frames,
                              " frames; its first dimension must be a multiple of 1 to ", kMostStackFrames, " frames"));
    }
    if (is_narrowed && storage.frames > 1)
      faults.push_back(concat("replay: leaf ", describe(leaf), " cannot be both narrowed and a stack"));
  }
}

void number_faults(int envs, const ReplayOptions& options, std::vector<std::string>& faults) {
  const auto need = [&](bool is_right, const auto&... words) {
    if (!is_right) faults.push_back(concat("replay: ", words...));
  };
  need(envs >= 1, envs, " environments; there must be one at least");
  need(options.rows >= 1 && options.rows <= kMostRows, "rows is ", options.rows, " and must be 1 to ", kMostRows);
  need(options.n_step >= 1 && options.n_step <= kMostNStep, "n_step is ", options.n_step, " and must be 1 to ",
       kMostNStep);
  need(options.gamma >= 0 && options.gamma <= 1, "gamma is ", options.gamma, " and must be 0 to 1");
  need(options.ends >= 0 && options.ends <= kMostRows, "ends is ", options.ends, " and must be 0 to ", kMostRows);
  if (envs >= 1 && options.rows >= 1) {
    const std::int64_t steps = divided_up(options.rows, envs);
    need(steps >= options.n_step, "rows is ", options.rows, ", which is ", steps, " steps of ", envs,
         " environments, and must be n_step = ", options.n_step, " steps at least");
    need(options.ends == 0 || options.ends >= envs, "ends is ", options.ends,
         "; all episodes can end in one step, so it must be 0 or the number of environments, ", envs, ", at least");
  }
  if (options.priorities) {
    need(options.priorities->alpha >= 0 && options.priorities->alpha <= 1, "alpha is ", options.priorities->alpha,
         " and must be 0 to 1");
    need(options.priorities->epsilon >= 0 && options.priorities->epsilon <= 1, "epsilon is ",
         options.priorities->epsilon, " and must be 0 to 1");
  }
}

void goal_faults(const Spec& spec, const ReplayOptions& options, std::vector<std::string>& faults) {
  if (!options.hindsight) return;
  if (const std::string why = why_no_goals(spec); !why.empty()) {
    faults.push_back(concat("replay: hindsight needs an environment with goals; ", spec.id, " ", why));
  } else if (options.leaves.size() == spec.observation.size()) {
    const GoalLeaves goals = goal_leaves(spec);
    const LeafStorage &one = options.leaves[goals.achieved], &other = options.leaves[goals.desired];
    if (one.frames != 1 || other.frames != 1 || one.numbers != other.numbers)
      faults.emplace_back("replay: hindsight needs goals that are stored alike, and no stacks of frames");
  }
  if (options.kept_ends != KeptEnds::kAll)
    faults.emplace_back("replay: hindsight needs the goal that an episode ended with; set kept_ends to all");
  if (options.hindsight->goals < 0 || options.hindsight->goals > 1'000'000)
    faults.push_back(concat("replay: goals is ", options.hindsight->goals, " and must be 0 to 1000000"));
  if (!options.hindsight->reward) faults.emplace_back("replay: hindsight needs a function for rewards");
}

// Each environment may be at any point of an episode, so one end more than the time limit makes can be held of each.
std::int64_t ends_of(const Spec& spec, int envs, const ReplayOptions& options, std::int64_t steps) {
  if (options.ends > 0) return options.ends;
  const std::int64_t all = envs;
  if (options.kept_ends == KeptEnds::kTruncated && spec.max_episode_steps > 0)
    return all * (divided_up(steps, spec.max_episode_steps) + 1);
  return std::max(all, divided_up(steps * all, kRowsOfAnEnd));
}

}  // namespace

std::vector<std::string> option_faults(const Spec& spec, int envs, const ReplayOptions& options) {
  std::vector<std::string> faults = spec_faults(spec);
  number_faults(envs, options, faults);
  leaf_faults(spec, options, faults);
  goal_faults(spec, options, faults);
  return faults;
}

StorePlan::StorePlan(const Spec& spec, int group_envs, const ReplayOptions& options) {
  const std::vector<std::string> faults = option_faults(spec, group_envs, options);
  if (!faults.empty()) throw ConfigError(faults);
  envs = group_envs;
  const auto rows = static_cast<std::size_t>(envs);
  std::vector<Column> of_step, of_end;
  const auto add = [&](const std::string& name, std::size_t bytes) {
    row_bytes += bytes;
    of_step.push_back({name, rows * bytes});
    return of_step.size() - 1;
  };
  for (std::size_t l = 0; l < spec.observation.size(); ++l) {
    const StoredLeaf& leaf = leaves.emplace_back(
        stored_leaf(spec.observation[l], options.leaves.empty() ? LeafStorage{} : options.leaves[l]));
    add("observation." + leaf.shown.name, leaf.frame_bytes);
    of_end.push_back({"observation." + leaf.shown.name, leaf.frame_bytes});
    margin = std::max(margin, static_cast<std::int64_t>(leaf.frames) - 1);
  }
  is_discrete = !std::holds_alternative<Box>(spec.action);
  action_bytes = static_cast<std::size_t>(action_elements(spec.action)) * (is_discrete ? 8 : 4);
  mask_bytes = spec.has_action_mask ? static_cast<std::size_t>(mask_elements(spec.action)) : 0;
  action = add("action", action_bytes);
  reward = add("reward", sizeof(double));
  flags = add("flags", 1);
  mask = add("mask", mask_bytes);
  end_row = of_end.size();
  of_end.push_back({"row", sizeof(std::int64_t)});
  steps_held = divided_up(options.rows, envs);
  ends_held = ends_of(spec, group_envs, options, steps_held);
  steps = ring_plan(std::move(of_step), steps_held + margin);
  ends = ring_plan(std::move(of_end), ends_held);
}

PartBytes bytes_of_part(const Spec& spec, int envs, const ReplayOptions& options) {
  const StorePlan plan(spec, envs, options);
  const auto rows = static_cast<std::uint64_t>(plan.steps_held * plan.envs);
  PartBytes bytes{.arrays = rows * plan.row_bytes, .whole = plan.steps.bytes() + plan.ends.bytes()};
  if (options.priorities) {
    bytes.arrays += rows * sizeof(double);
    bytes.whole += SumTree::bytes_for(static_cast<std::size_t>(rows));
  }
  return bytes;
}

}  // namespace tandem::rl
