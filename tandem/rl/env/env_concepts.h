// rl/env/env_concepts.h: what a user's environment looks like: one struct that is one environment.
//
//   struct Corridor {
//     static tandem::rl::Spec spec();
//     std::array<float, 1> reset(tandem::rl::NumpyGenerator& random);
//     tandem::rl::StepResult<std::array<float, 1>> step(std::int64_t action);
//   };
//
// spec()   static or const. Equal for all copies.
// reset    starts an episode and returns its first observation. Either form:
//            reset(NumpyGenerator& random)   draws from the environment's own generator, which runs on over episodes;
//                                            the struct may keep the reference and draw in step() too
//            reset(std::uint64_t seed)       for a simulator with a generator of its own; equal seeds, equal episodes
// step     takes what spec().action says and returns observation, reward, terminated, truncated:
//            Discrete        step(std::int64_t action)
//            MultiDiscrete   step(std::span<const std::int64_t> action)
//            Box             step(std::span<const float> action)
//          The struct does not apply time limits: the adapter truncates after spec().max_episode_steps.
// optional save() const -> bytes (std::vector<std::byte>, std::string, ...) and load(std::span<const std::byte>) -> the
//          observation of the loaded state: then a resumed run goes on exactly where it was. load() comes after a
//          reset() whose episode is given up, and throws on bytes that it cannot read. The adapter saves the generator
//          above and the step count of the episode.
// optional render(Canvas& canvas) const: draws the environment as it is now, for `tandem eval --video` (canvas.h). It
// is
//          called for videos alone, after reset() and after each step, also after one that ended the episode. It must
//          change nothing and draw no random numbers: a video shows what is played without it.
// optional static options() and configure(): parameters that are set from outside (env_options.h).
// optional compute_reward() and compute_terminated(): rewards and ends that follow from goals (goal_rewards.h).
// optional static metrics(): numbers that a run reports beside the return (env_metrics.h).
// optional action_mask(std::span<std::uint8_t> allowed) const, with spec().has_action_mask: writes 1 for each option
//          that may be chosen now and 0 for the others, the options of a MultiDiscrete one choice after the other.
//
// An observation is a scalar, or anything contiguous (std::array, std::vector, std::span into the simulator's memory),
// or a std::tuple or std::pair of these, one entry a leaf of the spec. Element types: float for a float32 leaf, double
// for a float64 leaf or, narrowed, a float32 one, std::uint8_t or bool for uint8, any other integer for int64.
//
// Any of these may throw: the run then ends with an EnvError that names the environment, the step and what() of it.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "tandem/base/check.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/numpy_random.h"
#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// The result of step(). A struct of the user's with members of these names serves as well.
template <typename Observation>
struct StepResult {
  Observation observation;
  double reward = 0.0;
  /// The task itself ended: no reward can follow, and the value of the last observation counts as zero.
  bool terminated = false;
  /// The episode was cut short for another reason; the value of the last observation counts on.
  bool truncated = false;
};

// The concepts below ask whether a struct has a member function. A struct may have several forms of step(); the action
// space of its spec decides which one is called.

/// The adapter asks once, when a group is made.
template <typename Env>
concept TellsItsSpec = requires(const Env& env) {
  { env.spec() } -> std::convertible_to<Spec>;
};
/// Any result is taken for an observation here; which types are possible is checked by observation_writer.h.
template <typename Value>
concept IsShown = !std::is_void_v<Value>;
/// A struct with this form may keep the reference: the generator outlives the struct's episodes.
template <typename Env>
concept ResetsFromGenerator = requires(Env& env, NumpyGenerator& random) {
  { env.reset(random) } -> IsShown;
};
/// The struct makes a generator of its own from the seed.
template <typename Env>
concept ResetsFromSeed = requires(Env& env, std::uint64_t seed) {
  { env.reset(seed) } -> IsShown;
};

/// Members named as those of StepResult.
template <typename Result>
concept IsStepResult = requires(Result& result) {
  result.observation;
  { result.reward } -> std::convertible_to<double>;
  { result.terminated } -> std::convertible_to<bool>;
  { result.truncated } -> std::convertible_to<bool>;
};
/// For Discrete: the action is an index, 0 .. n-1.
template <typename Env>
concept TakesOneChoice = requires(Env& env, std::int64_t action) {
  { env.step(action) } -> IsStepResult;
};
/// For MultiDiscrete: the span has an index for each choice.
template <typename Env>
concept TakesChoices = requires(Env& env, std::span<const std::int64_t> action) {
  { env.step(action) } -> IsStepResult;
};
/// For Box: the span has a number for each element. Runs cut them at finite bounds.
template <typename Env>
concept TakesNumbers = requires(Env& env, std::span<const float> action) {
  { env.step(action) } -> IsStepResult;
};

/// Both save() and load(): with one alone, states count as not saved.
template <typename Env>
concept SavesItsState = requires(Env& env, std::span<const std::byte> state) {
  { std::as_const(env).save() } -> std::ranges::contiguous_range;
  { env.load(state) } -> IsShown;
};
/// The struct writes 1 for each option that it allows now, and 0 for the others; the span holds mask_elements()
/// entries.
template <typename Env>
concept MasksActions = requires(const Env& env, std::span<std::uint8_t> allowed) {
  env.action_mask(allowed);
};

/// The struct draws itself, as does one of several agents.
template <typename Env>
concept DrawsItself = requires(const Env& env, Canvas& canvas) {
  env.render(canvas);
};
/// It has a member of that name, of whatever form: one that is not called is most likely a mistake.
template <typename Env>
concept HasRender = requires {
  &Env::render;
};

/// Calls step() with action `row` of the arrays (EnvActions), in the form that `space` needs. The struct must have that
/// form, which struct_faults() has checked; else InvariantError. The spans point into the caller's arrays and are valid
/// during the call only.
template <typename Env>
auto call_step(Env& env, const ActionSpace& space, const std::int64_t* discrete, const float* box, std::size_t row) {
  const auto elements = static_cast<std::size_t>(action_elements(space));
  if constexpr (TakesNumbers<Env>) {
    if (std::holds_alternative<Box>(space)) return env.step(std::span(box + row * elements, elements));
  }
  if constexpr (TakesChoices<Env>) {
    if (std::holds_alternative<MultiDiscrete>(space)) return env.step(std::span(discrete + row * elements, elements));
  }
  if constexpr (TakesOneChoice<Env>) {
    if (std::holds_alternative<Discrete>(space)) return env.step(discrete[row]);
  }
  fail_check("step() takes the actions of the spec", __FILE__, __LINE__, describe(space));
}

/// Calls reset() in the form that the struct has: with the generator; or with a seed, which is `*first_seed` or, where
/// `first_seed` is null, one that the generator draws. Returns what the struct's reset() returns, references included,
/// so that nothing is copied.
template <typename Env>
decltype(auto) call_reset(Env& env, NumpyGenerator& random, const std::uint64_t* first_seed) {
  if constexpr (ResetsFromGenerator<Env>) {
    return env.reset(random);
  } else {
    return env.reset(first_seed != nullptr ? *first_seed : random.next_uint64());
  }
}

/// The types of the observations that reset() and step() return; they may differ, when both fit the spec.
template <typename Env>
using FirstObservation =
    std::remove_cvref_t<decltype(call_reset(std::declval<Env&>(), std::declval<NumpyGenerator&>(), nullptr))>;
template <typename Env>
using NextObservation = std::remove_cvref_t<
    decltype(call_step(std::declval<Env&>(), std::declval<ActionSpace&>(), nullptr, nullptr, 0).observation)>;

}  // namespace tandem::rl
