#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/leaf_map.h"
#include "tandem/rl/replay/step_store.h"

// Snapshots. Whatever is read back comes from files: it is compared with the spec before anything relies on it, since
// an action outside of its space would become an index somewhere else.
namespace tandem::rl {
namespace {

// The first element that is not what the leaf allows: a number that is not finite, or an integer outside of its bounds.
template <typename Element>
bool all_allowed(const std::byte* rows, std::int64_t count, const Leaf& leaf) {
  const auto elements = elements_at<Element>(rows, count * leaf.count());
  if constexpr (std::is_floating_point_v<Element>) {
    return std::ranges::all_of(elements, [](Element element) { return std::isfinite(element); });
  } else if constexpr (std::is_same_v<Element, std::int64_t>) {
    if (leaf.low.empty()) return true;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const ValueRange bounds = bounds_of(leaf, i % static_cast<std::size_t>(leaf.count()));
      const auto number = static_cast<double>(elements[i]);
      if (number < bounds.low || number > bounds.high) return false;
    }
  }
  return true;
}

// A frame of a stack has the first frame's bounds.
Leaf frame_of(const StoredLeaf& stored) {
  Leaf leaf = stored.shown;
  leaf.shape = {stored.shown.count() / static_cast<std::int64_t>(stored.frames)};
  const auto count = static_cast<std::size_t>(leaf.shape[0]);
  if (leaf.low.size() > count) leaf.low.resize(count);
  if (leaf.high.size() > count) leaf.high.resize(count);
  return leaf;
}

bool all_allowed(const std::byte* rows, std::int64_t count, const StoredLeaf& stored) {
  if (stored.shown.type == ElementType::kUInt8) return true;
  const Leaf frame = frame_of(stored);
  return with_element_type(frame.type,
                           [&](auto element) { return all_allowed<decltype(element)>(rows, count, frame); });
}

bool actions_allowed(const std::byte* rows, std::int64_t count, const ActionSpace& space) {
  const std::vector<std::int64_t> choices = choices_of(space);
  if (choices.empty()) {
    const auto numbers = elements_at<float>(rows, count * action_elements(space));
    return std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); });
  }
  const auto numbers = elements_at<std::int64_t>(rows, count * action_elements(space));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0 || numbers[i] >= choices[i % choices.size()]) return false;
  }
  return true;
}

bool all_below(const std::byte* bytes, std::size_t count, std::uint8_t bound) {
  return std::all_of(bytes, bytes + count, [&](std::byte byte) { return std::to_integer<std::uint8_t>(byte) < bound; });
}

}  // namespace

void StepStore::put(StateWriter& state) const {
  for (const std::int64_t number :
       {steps_.first(), steps_.end(), ends_.first(), ends_.end(), oldest_, after_dropped_end_})
    state.put(number);
}

void StepStore::append_pieces(std::vector<ReplayPiece>& pieces) const {
  steps_.append_pieces(pieces);
  ends_.append_pieces(pieces);
}

void StepStore::restore(StateReader& state, const ReadReplayPiece& read) {
  clear();
  const auto first = state.get<std::int64_t>(), end = state.get<std::int64_t>();
  const auto first_end = state.get<std::int64_t>(), end_end = state.get<std::int64_t>();
  const auto oldest = state.get<std::int64_t>(), after_dropped = state.get<std::int64_t>();
  if (!steps_.can_hold(first, end)) state.fail(concat("it holds steps ", first, " to ", end));
  if (!ends_.can_hold(first_end, end_end)) state.fail(concat("it holds ends ", first_end, " to ", end_end));
  const std::int64_t steps = std::max<std::int64_t>(end - 1, 0);
  if (after_dropped < 0 || after_dropped > steps || (first_end == 0 && after_dropped != 0) ||
      oldest != std::max({std::int64_t{0}, steps - plan_.steps_held, after_dropped}))
    state.fail(concat("its oldest step is ", oldest, " of ", steps));
  try {
    steps_.restore(first, end, read);
    ends_.restore(first_end, end_end, read);
    oldest_ = oldest;
    after_dropped_end_ = after_dropped;
    check_rows(state);
    index_ends(state);
  } catch (...) {
    clear();
    throw;
  }
}

void StepStore::check_rows(const StateReader& state) const {
  const auto rows = static_cast<std::size_t>(plan_.envs);
  for (std::int64_t step = steps_.first(); step < steps_.end(); ++step) {
    const auto need = [&](bool is_right, const char* what) {
      if (!is_right) state.fail(concat(what, " of step ", step, " is not what ", spec_.id, " allows"));
    };
    for (std::size_t l = 0; l < plan_.leaves.size(); ++l)
      need(all_allowed(steps_.at(l, step), plan_.envs, plan_.leaves[l]), "an observation");
    need(actions_allowed(steps_.at(plan_.action, step), plan_.envs, spec_.action), "an action");
    const auto rewards = elements_at<double>(steps_.at(plan_.reward, step), plan_.envs);
    need(std::ranges::all_of(rewards, [](double reward) { return std::isfinite(reward); }), "a reward");
    need(all_below(steps_.at(plan_.flags, step), rows, 4), "a flag");
    need(all_below(steps_.at(plan_.mask, step), rows * plan_.mask_bytes, 2), "an action mask");
  }
  for (std::int64_t end = ends_.first(); end < ends_.end(); ++end) {
    for (std::size_t l = 0; l < plan_.leaves.size(); ++l) {
      if (!all_allowed(ends_.at(l, end), 1, plan_.leaves[l]))
        state.fail(concat("the last observation ", end, " is not what ", spec_.id, " allows"));
    }
  }
}

// Ends are in the order of steps, those of one step in the order of environments, and each kept end of a row that is
// held has its record.
void StepStore::index_ends(const StateReader& state) {
  std::int64_t last_row = -1;
  for (std::int64_t record = ends_.first(); record < ends_.end(); ++record) {
    std::int64_t row = 0;
    std::memcpy(&row, ends_.at(plan_.end_row, record), sizeof(row));
    if (row <= last_row || row >= now() * plan_.envs) state.fail(concat("its end ", record, " is of row ", row));
    last_row = row;
    if (row / plan_.envs >= steps_.first())
      episodes_.add(row % plan_.envs, {.step = row / plan_.envs, .record = record}, oldest_);
  }
  for (std::int64_t step = oldest_; step < now(); ++step) {
    for (std::int64_t env = 0; env < plan_.envs; ++env) {
      if (is_kept(end_of(step, env)) != episodes_.at(env, step).has_value())
        state.fail(concat("environment ", env, " ended with step ", step,
                          " and has no last observation, or has one "
                          "without an end"));
    }
  }
}

}  // namespace tandem::rl
