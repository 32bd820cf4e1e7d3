#include <algorithm>
#include <array>
#include <cstring>

#include "tandem/rl/replay/step_store.h"

// What is read of rows: stacks are put together of the frames of the steps before.
namespace tandem::rl {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kMostLines = 8;  // of a row of a leaf; the processor fetches what follows by itself

void prefetch_bytes(const std::byte* from, std::size_t bytes) {
  for (std::size_t line = 0; line < std::min(bytes, kMostLines * kCacheLine); line += kCacheLine)
    __builtin_prefetch(from + line);
}

}  // namespace

// From the newest back, to the first of the episode; before that lies what the environment pads with.
void StepStore::find_frames(std::size_t leaf, std::int64_t step, std::int64_t env,
                            std::span<const std::byte*> frames) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  std::int64_t at = step;
  bool is_first = false;
  for (std::size_t i = frames.size(); i-- > 0;) {
    if (is_first) {
      frames[i] = its.padding == StackPadding::kZero ? its.zero_frame.data() : frames[i + 1];
      continue;
    }
    frames[i] = row_of(leaf, its.frame_bytes, at, env);
    is_first = at == 0 || end_of(at - 1, env) != 0;
    --at;
  }
}

void StepStore::copy_observation(std::size_t leaf, std::int64_t step, std::int64_t env, std::byte* into) const {
  const StoredLeaf& its = plan_.leaves[leaf];
  if (!its.is_stack()) {
    std::memcpy(into, row_of(leaf, its.frame_bytes, step, env), its.frame_bytes);
    return;
  }
  std::array<const std::byte*, kMostStackFrames> frames{};
  find_frames(leaf, step, env, std::span(frames).first(its.frames));
  for (std::size_t i = 0; i < its.frames; ++i) std::memcpy(into + i * its.frame_bytes, frames[i], its.frame_bytes);
}

// The stack of an episode's last observation is that before the last step without its oldest frame, and the frame that
// was kept.
void StepStore::copy_next_observation(std::size_t leaf, std::int64_t step, std::int64_t env, std::byte* into) const {
  if (end_of(step, env) == 0) {
    copy_observation(leaf, step + 1, env, into);
    return;
  }
  const auto end = episodes_.at(env, step);
  const StoredLeaf& its = plan_.leaves[leaf];
  if (!end) {
    copy_observation(leaf, step, env, into);
  } else if (!its.is_stack()) {
    std::memcpy(into, ends_.at(leaf, end->record), its.frame_bytes);
  } else {
    std::array<const std::byte*, kMostStackFrames> frames{};
    find_frames(leaf, step, env, std::span(frames).first(its.frames));
    for (std::size_t i = 1; i < its.frames; ++i)
      std::memcpy(into + (i - 1) * its.frame_bytes, frames[i], its.frame_bytes);
    std::memcpy(into + (its.frames - 1) * its.frame_bytes, ends_.at(leaf, end->record), its.frame_bytes);
  }
}

void StepStore::copy_next_mask(std::int64_t step, std::int64_t env, std::uint8_t* into) const {
  if (end_of(step, env) == 0) {
    copy_mask(step + 1, env, into);
  } else {
    std::memset(into, 1, plan_.mask_bytes);
  }
}

void StepStore::prefetch(std::int64_t step, std::int64_t env, std::int64_t ahead) const {
  for (std::size_t l = 0; l < plan_.leaves.size(); ++l) {
    const std::size_t bytes = plan_.leaves[l].frame_bytes;
    prefetch_bytes(row_of(l, bytes, step, env), bytes);
    prefetch_bytes(row_of(l, bytes, step + ahead, env), bytes);
  }
  prefetch_bytes(row_of(plan_.action, plan_.action_bytes, step, env), plan_.action_bytes);
  for (std::int64_t k = 0; k < ahead; ++k) {
    __builtin_prefetch(row_of(plan_.reward, sizeof(double), step + k, env));
    __builtin_prefetch(row_of(plan_.flags, 1, step + k + 1, env));
  }
}

}  // namespace tandem::rl
