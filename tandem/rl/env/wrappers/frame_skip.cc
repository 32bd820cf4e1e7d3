#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/element_types.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

Spec with_skipped_frames(const Spec& inner, std::int64_t frames) {
  if (inner.has_action_mask)
    throw ConfigError("the environment has action masks, and the action of one frame may not be allowed in the next");
  Spec spec = inner;
  spec.max_episode_steps = static_cast<int>((spec.max_episode_steps + frames - 1) / frames);
  spec.render_fps /= static_cast<double>(frames);
  return spec;
}

// `to` becomes the larger one of both, element by element.
void take_larger(const Leaf& leaf, const std::byte* other, std::byte* to) {
  with_element_type(leaf.type, [&](auto element) {
    using Element = decltype(element);
    const std::span<Element> mine = elements_at<Element>(to, leaf.count());
    const std::span<const Element> theirs = elements_at<Element>(other, leaf.count());
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
  });
}

// Each frame is a step of the inner group in which those environments rest whose episode has ended in an earlier one.
// All frames are written to the caller's arrays, one over the other.
class FrameSkipGroup final : public WrappingGroup {
 public:
  FrameSkipGroup(std::unique_ptr<EnvGroup> inner_group, std::int64_t frames, SkippedFrames shown)
      : WrappingGroup(std::move(inner_group), "frame_skip",
                      [&](const Spec& its) { return with_skipped_frames(its, frames); }),
        frames_(frames),
        shown_(shown),
        sums_(rows()),
        steps_(rows()) {
    if (shown_ == SkippedFrames::kLast) return;
    for (const Leaf& leaf : spec().observation) before_.emplace_back(rows() * leaf.bytes());
  }

 protected:
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    for (std::size_t e = 0; e < rows(); ++e) {
      steps_[e] = makes_a_step(which, e) ? RowStep::kStep : RowStep::kRest;
      sums_[e] = 0;
    }
    for (std::int64_t frame = 0; frame < frames_; ++frame) {
      if (frame == frames_ - 1) end_where_asked(which);
      if (std::ranges::all_of(steps_, [](RowStep step) { return step == RowStep::kRest; })) break;
      const bool all = std::ranges::all_of(steps_, [](RowStep step) { return step == RowStep::kStep; });
      step_inner(all ? std::span<const RowStep>() : steps_, actions, out);
      if (shown_ == SkippedFrames::kMaxOfTwo) show_larger(frame, out);
      for (std::size_t e = 0; e < rows(); ++e) {
        if (steps_[e] == RowStep::kRest) continue;
        sums_[e] += out.reward[e];
        if (has_ended(out, e)) steps_[e] = RowStep::kRest;
      }
    }
    for (std::size_t e = 0; e < rows(); ++e) {
      if (makes_a_step(which, e)) out.reward[e] = sums_[e];
    }
  }

  // A step has the rewards of several goals that were achieved.
  [[nodiscard]] bool rewards_goals() const override { return frames_ == 1; }

 private:
  // An episode that is to end with this step ends with its last frame.
  void end_where_asked(std::span<const RowStep> which) {
    for (std::size_t e = 0; e < which.size(); ++e) {
      if (which[e] == RowStep::kLastStep && steps_[e] == RowStep::kStep) steps_[e] = RowStep::kLastStep;
    }
  }
  void show_larger(std::int64_t frame, const EnvArrays& out) {
    if (frame < frames_ - 2) return;
    for (std::size_t l = 0; l < before_.size(); ++l) {
      const Leaf& leaf = spec().observation[l];
      for (std::size_t e = 0; e < rows(); ++e) {
        if (steps_[e] == RowStep::kRest) continue;
        const std::size_t at = e * leaf.bytes();
        if (frame == frames_ - 2) {
          std::memcpy(before_[l].data() + at, out.observation[l] + at, leaf.bytes());
        } else if (!has_ended(out, e)) {
          take_larger(leaf, before_[l].data() + at, out.observation[l] + at);
        } else if (!out.final_observation.empty()) {
          take_larger(leaf, before_[l].data() + at, out.final_observation[l] + at);
        }
      }
    }
  }

  const std::int64_t frames_;
  const SkippedFrames shown_;
  std::vector<double> sums_;    // by environment: rewards of this step
  std::vector<RowStep> steps_;  // of one frame
  // By leaf: the last frame but one of each environment. It is written and read in one step.
  std::vector<std::vector<std::byte>> before_;
};

}  // namespace

EnvWrapper frame_skip(std::int64_t frames, SkippedFrames shown) {
  TANDEM_CHECK(frames >= (shown == SkippedFrames::kMaxOfTwo ? 2 : 1), frames);
  return {
      .spec_of = [frames](const Spec& inner) { return with_skipped_frames(inner, frames); },
      .around = [frames, shown](std::unique_ptr<EnvGroup> inner, std::uint64_t /*place*/) -> std::unique_ptr<EnvGroup> {
        return std::make_unique<FrameSkipGroup>(std::move(inner), frames, shown);
      },
      .needs_rows = frames > 1};
}

}  // namespace tandem::rl
