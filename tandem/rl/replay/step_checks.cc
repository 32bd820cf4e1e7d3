#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tandem/base/check.h"
#include "tandem/rl/replay/step_store.h"

// What is looked at before a step is written, so that a refused step changes nothing.
namespace tandem::rl {

void StepStore::check_arrays(const EnvArrays& arrays) const {
  TANDEM_EXPECTS(arrays.observation.size() == plan_.leaves.size(), "replay: ", arrays.observation.size(),
                 " observation arrays; ", spec_.id, " has ", plan_.leaves.size(), " leaves");
  TANDEM_EXPECTS(plan_.mask_bytes == 0 || arrays.action_mask != nullptr, "replay: ", spec_.id,
                 " has action masks, and none are given");
}

void StepStore::check_actions(const EnvActions& actions) const {
  TANDEM_EXPECTS(has_begun(), "replay: a step before begin(); call it with the group's first observations");
  TANDEM_EXPECTS((plan_.is_discrete ? actions.discrete != nullptr : actions.box != nullptr), "replay: ", spec_.id,
                 " takes ", plan_.is_discrete ? "discrete" : "box", " actions, and none are given");
}

void StepStore::check_step(const EnvArrays& step) const {
  check_arrays(step);
  TANDEM_EXPECTS(step.reward != nullptr && step.terminated != nullptr && step.truncated != nullptr,
                 "replay: a step without rewards or flags");
  for (std::int64_t env = 0; env < plan_.envs; ++env) {
    const std::uint8_t end = step_end(step.terminated[env], step.truncated[env]);
    TANDEM_EXPECTS(!is_kept(end) || step.final_observation.size() == plan_.leaves.size(),
                   "replay: the episode of environment ", env, " ended with step ", now(),
                   ", and its last observation is not given; give EnvArrays final_observation");
    for (std::size_t l = 0; l < plan_.leaves.size(); ++l) {
      if (end == 0) {
        check_next(l, step.observation[l], env);
        continue;
      }
      check_first(l, step.observation[l], env);
      if (is_kept(end)) check_last(l, step.final_observation[l], env, end);
    }
  }
}

// The first observation of an episode: a stack's older frames are padding.
void StepStore::check_first(std::size_t leaf, const std::byte* given, std::int64_t env) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  check_range(leaf, given, env);
  if (!its.is_stack()) return;
  const std::byte* const row = given + static_cast<std::size_t>(env) * its.given_bytes;
  const std::byte* const newest = row + (its.frames - 1) * its.frame_bytes;
  const std::byte* const padding = its.padding == StackPadding::kZero ? its.zero_frame.data() : newest;
  for (std::size_t i = 0; i + 1 < its.frames; ++i) {
    TANDEM_EXPECTS(std::memcmp(row + i * its.frame_bytes, padding, its.frame_bytes) == 0, "replay: leaf ",
                   its.shown.name, " is not a stack of ", its.frames, " frames as LeafStorage says: frame ", i,
                   " of the first observation of environment ", env, " is not ",
                   its.padding == StackPadding::kZero ? "zeros" : "its newest frame",
                   "; say another padding, or 1 frame");
  }
}

// The last observation of an episode. One that was cut short where its environment failed may show the present one.
void StepStore::check_last(std::size_t leaf, const std::byte* given, std::int64_t env, std::uint8_t end) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  const std::byte* const row = given + static_cast<std::size_t>(env) * its.given_bytes;
  if (its.is_stack() && end == kStepTruncated && shows_present(leaf, row, env)) return;
  check_next(leaf, given, env);
}

bool StepStore::shows_present(std::size_t leaf, const std::byte* row, std::int64_t env) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  std::array<const std::byte*, kMostStackFrames> frames{};
  find_frames(leaf, now(), env, std::span(frames).first(its.frames));
  for (std::size_t i = 0; i < its.frames; ++i)
    if (std::memcmp(row + i * its.frame_bytes, frames[i], its.frame_bytes) != 0) return false;
  return true;
}

// The observation after the present one: a stack's older frames are the present one's newer ones.
void StepStore::check_next(std::size_t leaf, const std::byte* given, std::int64_t env) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  check_range(leaf, given, env);
  if (!its.is_stack()) return;
  std::array<const std::byte*, kMostStackFrames> frames{};
  find_frames(leaf, now(), env, std::span(frames).first(its.frames));
  const std::byte* const row = given + static_cast<std::size_t>(env) * its.given_bytes;
  for (std::size_t i = 0; i + 1 < its.frames; ++i) {
    TANDEM_EXPECTS(std::memcmp(row + i * its.frame_bytes, frames[i + 1], its.frame_bytes) == 0, "replay: leaf ",
                   its.shown.name, " is not a stack of ", its.frames, " frames as LeafStorage says: frame ", i,
                   " of environment ", env, " after step ", now(), " is not frame ", i + 1, " before it; say 1 frame");
  }
}

void StepStore::check_range(std::size_t leaf, const std::byte* given, std::int64_t env) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  if (!its.is_narrowed) return;
  const std::byte* const row = given + static_cast<std::size_t>(env) * its.given_bytes;
  for (std::size_t i = 0; i < its.given_bytes / sizeof(double); ++i) {
    double number = 0;
    std::memcpy(&number, row + i * sizeof(double), sizeof(double));
    if (std::abs(number) <= std::numeric_limits<float>::max()) continue;
    throw EnvError(concat(spec_.id, ": element ", i, " of leaf ", its.shown.name, " is ", number, " in environment ",
                          env, ", which float32 cannot hold; store the leaf as given"));
  }
}

}  // namespace tandem::rl
