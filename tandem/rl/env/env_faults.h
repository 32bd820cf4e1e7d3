// rl/env/env_faults.h: finds what is wrong with environments and with what they are given, and says so.
//
// Three things can be wrong: a user's struct and its spec disagree; a value is not allowed (an action outside the
// space, a mask that leaves nothing, a number that is not finite); or user code throws. An index outside the space
// would read past a table, and a NaN that got into a policy would show many updates later, far from the environment
// that made it. A fault that is found here still names the environment and the action. Implementations of EnvGroup call
// check_actions() first in step().
//
// Threads: free functions on values. They take no memory unless they throw, so they may run in every step.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// The forms of step() and action_mask() that a struct has, as the concepts of env_concepts.h found them. More than one
/// form of step() may be there; the spec's action space decides which one is called.
struct StructForms {
  bool one_choice = false;  // step(std::int64_t)
  bool choices = false;     // step(std::span<const std::int64_t>)
  bool numbers = false;     // step(std::span<const float>)
  bool mask = false;        // action_mask(std::span<std::uint8_t>)
};

/// Finds where a struct lacks a member function that its spec needs, or has a mask that its spec does not announce.
/// Returns one sentence for each; empty when all fits. The caller throws them together as one ConfigError.
[[nodiscard]] std::vector<std::string> struct_faults(const Spec& spec, const StructForms& forms);

/// The call into user code during which an error happened. The message names it in words.
enum class EnvCall { kReset, kStep, kSave, kLoad, kRender, kReward };

/// The beginning of an error's message: "Mine-v0: environment 3 of 64 in step 17 of its episode: ". `elapsed_steps` are
/// those before the step that failed, so steps count from 1 in the message.
[[nodiscard]] std::string describe_call(const Spec& spec, EnvCall call, std::size_t env, std::size_t count,
                                        int elapsed_steps);

/// Thrown by a render() that cannot draw on this machine, most often for want of a library, which the user can mend.
class NoDrawing : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// Runs `action`, which calls user code. An exception of any type becomes a `Failure` (EnvError, CheckpointError) whose
/// message is place() and then what(). InvariantError passes through: it reports a defect of ours. So does NoDrawing,
/// which says the same of all environments. place() is called
/// only when something was thrown, so a step without errors makes no text. An exception that is no std::exception has
/// no text of its own, so a fixed sentence stands for it.
template <typename Failure, typename Place, typename Action>
void guard_call(const Place& place, Action&& action) {
  try {
    action();
  } catch (const InvariantError&) {
    throw;
  } catch (const NoDrawing&) {
    throw;
  } catch (const std::exception& error) {
    throw Failure(place() + error.what());
  } catch (...) {
    throw Failure(place() + "it threw something that is not a std::exception");
  }
}

/// Looks at the actions of `rows` environments. Discrete choices must be within their options, Box
/// elements finite; bounds of a Box are not checked, since environments clip. Throws EnvError naming the first bad one,
/// InvariantError when the array of the space's kind is missing.
void check_actions(const Spec& spec, std::size_t rows, const EnvActions& actions);

/// Looks at the action mask of one row: entries are 0 or 1, and each choice leaves at least one option. Throws EnvError
/// with the bare reason ("its action mask leaves no option for choice 1"); the caller adds environment and step.
void check_mask(const ActionSpace& space, std::span<const std::uint8_t> allowed);

/// Returns the index of the first NaN or infinity; nothing when all values are finite. Reads every value even when the
/// first one is bad, which is the rare case.
template <typename Real>
[[nodiscard]] std::optional<std::size_t> first_not_finite(std::span<const Real> values) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<Real>::infinity());
  // There is no early exit, and bits are compared instead of isfinite() called, so that the compiler turns the loop
  // into vector instructions. A number is not finite when all bits of its exponent are set.
  Bits found = 0;
  for (const Real value : values) found |= static_cast<Bits>((std::bit_cast<Bits>(value) & kExponent) == kExponent);
  if (found == 0) return std::nullopt;
  // The search is for the message only, after something was found.
  std::size_t index = 0;
  while (std::isfinite(values[index])) ++index;
  return index;
}

/// The first element of a leaf's rows that may not be: a float that is not finite, an integer beyond the leaf's bounds;
/// nothing when all are right. `memory` is aligned for the leaf's elements.
[[nodiscard]] std::optional<std::size_t> first_wrong_element(const Leaf& leaf, const std::byte* memory,
                                                             std::size_t rows);
/// "element 3 of its observation leaf 'obs' is nan", of the element that first_wrong_element() has found.
[[nodiscard]] std::string describe_element(const Leaf& leaf, const std::byte* memory, std::size_t at);

}  // namespace tandem::rl
