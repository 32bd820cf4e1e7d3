// rl/env/wrappers/env_wrapper.h: every wrapper, by the function that makes it. A wrapper with its values is put around
// groups of environments of one agent, whatever they are made of.
//
//   const EnvWrapper stack = frame_stack(4, StackPadding::kFirst, {});
//   stack.spec_of(group->spec());                          // what the wrapped group will show and take
//   group = stack.around(std::move(group), 0);
//
// Users write wrappers as texts (wrapper_list.h), and EnvRegistry::set_wrappers() puts them around an environment.
//
// A wrapped group is an EnvGroup like any other: it resets, steps, saves, draws and takes part in runs as the inner one
// does, of which it is the owner. It works on the caller's arrays; where it needs memory of its own it takes that when
// it is made, and none in step(). A value means what it means in the wrapper of gymnasium 1.4 that is named beside the
// function; differences are said there.
//
// Random numbers: a wrapper that draws has a generator for each environment, NumpyGenerator(derive_seed(seed,
// SeedPurpose::kEnvWrapper, place)) of the seed that reset() gives the environment. So episodes depend neither on how
// environments are grouped nor on what the environment itself draws. Saved states hold the generators.
//
// Threads: a wrapper is a value that does not change; its groups are single-thread, as every EnvGroup.
// Errors: spec_of() and around() throw ConfigError with what does not fit, and the next step.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// The places of frames before an episode's first are filled with that first one, or with zeros, which are moved to the
/// nearest bound where 0 is out of bounds.
enum class StackPadding { kFirst, kZero };

/// A leaf that is made of frames, oldest first, of which each step adds one at the end. 1: it is no stack.
struct FrameStack {
  std::int64_t frames = 1;
  StackPadding padding = StackPadding::kFirst;
  friend bool operator==(const FrameStack&, const FrameStack&) = default;
};
/// One for each leaf; empty: there is no stack.
using FrameStacks = std::vector<FrameStack>;

/// A wrapper with its values.
struct EnvWrapper {
  /// The spec of wrapped groups, whose inner groups have spec `inner`. The id stays.
  std::function<Spec(const Spec& inner)> spec_of;
  /// Puts the wrapper around a group. `place` is its place in a chain of wrappers, counted from the environment.
  std::function<std::unique_ptr<EnvGroup>(std::unique_ptr<EnvGroup> inner, std::uint64_t place)> around;
  /// The stacks that wrapped groups show, whose inner groups have spec `inner` and show `its`; missing: none that
  /// anybody could rely on.
  std::function<FrameStacks(const Spec& inner, FrameStacks its)> stacks_of = {};
  /// Whether the inner group must step by rows (steps_by_row.h).
  bool needs_rows = false;
};

/// EnvWrapper::stacks_of of a wrapper that changes neither observations nor which steps they are of.
[[nodiscard]] inline FrameStacks same_stacks(const Spec& /*inner*/, FrameStacks its) { return its; }

/// The lowest and the highest of some values, both inclusive and finite, low < high.
struct ValueRange {
  double low = -1, high = 1;
};

// Rewards. Each of the three adds the metric "unwrapped_return" to the environment's: the sum of an episode's rewards
// before it, unless a wrapper nearer to the environment has added it.

/// Multiplies rewards by `factor`; as TransformReward with such a function. The reward threshold is multiplied too.
[[nodiscard]] EnvWrapper reward_scale(double factor);
/// Cuts rewards at the ends of `range`; as ClipReward. There is no reward threshold then.
[[nodiscard]] EnvWrapper reward_clip(const ValueRange& range);
/// Makes rewards -1, 0 or 1, as numpy.sign(): the clipping of V. Mnih et al., "Human-level control through deep
/// reinforcement learning" (2015). There is no reward threshold then.
[[nodiscard]] EnvWrapper reward_sign();

// Steps and episodes.

/// Ends episodes after so many steps of the wrapped environment; as TimeLimit. A limit of the environment's own must
/// not be lower, because that one would end them before.
/// An environment that cannot end an episode by itself is reset with a new seed (lone_envs.h).
[[nodiscard]] EnvWrapper time_limit(std::int64_t steps);

/// What a step of several frames shows: the last one, or of each element the larger one of the last two, for games that
/// draw things in every second frame.
enum class SkippedFrames { kLast, kMaxOfTwo };
/// Makes `frames` steps with one action, or fewer where the episode ends, whose rewards are summed; as RepeatAction, or
/// MaxAndSkipObservation. Where an episode ends before the last frame, the final observation is that frame alone;
/// gymnasium's MaxAndSkipObservation shows what its buffer has from an earlier step. An environment with action masks
/// is refused: the action may not be allowed in the next frame.
[[nodiscard]] EnvWrapper frame_skip(std::int64_t frames, SkippedFrames shown);

/// Takes, with this probability, the action of the step before instead of the one that is given, except in an episode's
/// first step; as StickyAction (M. Machado et al., "Revisiting the Arcade Learning Environment", 2018). Gymnasium draws
/// from the environment's generator; see above. An environment with action masks is refused, as by frame_skip().
[[nodiscard]] EnvWrapper sticky_actions(double probability);

/// Takes actions within `range` and brings them to the bounds of the environment's own; as RescaleAction. What rounding
/// puts beyond a bound is cut at it. The environment must have a Box with finite bounds.
[[nodiscard]] EnvWrapper rescale_action(const ValueRange& range);

// Observations. A wrapper that changes leaves changes the one that is named, or all that it can change.

/// Shows the last `frames` observations, the oldest first; as FrameStackObservation. A leaf of [shape...] becomes
/// [frames, shape...]; an image of [channels, height, width] becomes [frames * channels, height, width], which are the
/// same bytes. `leaf`: only the leaf of that name; empty: all leaves.
[[nodiscard]] EnvWrapper frame_stack(std::int64_t frames, StackPadding padding, const std::string& leaf);

/// Shows all leaves as one of float32, or of float64 where a leaf is, "obs", one behind the other; as
/// FlattenObservation. Numbers stay as they are,
/// but an int64 element with bounds low .. high becomes high - low + 1 elements of which one is 1, as policies of
/// Tandem's and gymnasium's flatten of a Discrete space do. An int64 leaf without bounds is refused.
[[nodiscard]] EnvWrapper flatten();

/// Brings the elements of float32, float64 and uint8 leaves from the leaf's bounds to `range`, as float32; as
/// RescaleObservation (of uint8, gymnasium's shows nothing that is of use). Leaves with an element without finite
/// bounds cannot be changed.
[[nodiscard]] EnvWrapper rescale_observation(const ValueRange& range, const std::string& leaf);

/// Shows uint8 images of three colours, [3, height, width] or [height, width, 3], as [1, height, width]; as
/// GrayscaleObservation with keep_dim, which weighs red, green and blue by 0.2125, 0.7154 and 0.0721 and rounds down.
[[nodiscard]] EnvWrapper grey(const std::string& leaf);

/// The side lengths of an image.
struct ImageSize {
  std::int64_t height = 0, width = 0;
};
/// Shows uint8 images smaller: each pixel is the mean of the area that it covers, as cv2.resize(INTER_AREA) has it,
/// which is what ResizeObservation calls. Images are [height, width], [channels, height, width] or, where the last
/// extent is 1, 3 or 4 and the first is not, [height, width, channels]. Images do not become larger.
[[nodiscard]] EnvWrapper resize(const ImageSize& size, const std::string& leaf);

/// Show [height, width, channels] as [channels, height, width], which policies of Tandem's take for an image, and back.
[[nodiscard]] EnvWrapper channels_first(const std::string& leaf);
[[nodiscard]] EnvWrapper channels_last(const std::string& leaf);

}  // namespace tandem::rl
