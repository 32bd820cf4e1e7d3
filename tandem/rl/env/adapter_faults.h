// rl/env/adapter_faults.h: what EnvGroupOf and MultiAgentGroupOf say when a user's struct and its spec disagree, and
// where an error happened.
#pragma once
#include <cstddef>
#include <exception>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// Which forms of step() and action_mask() a struct has.
struct StructForms {
  bool one_choice = false;  // step(std::int64_t)
  bool choices = false;     // step(std::span<const std::int64_t>)
  bool numbers = false;     // step(std::span<const float>)
  bool mask = false;        // action_mask(std::span<std::uint8_t>)
};

/// Where a struct lacks what its spec promises, one sentence each.
[[nodiscard]] std::vector<std::string> struct_faults(const Spec& spec, const StructForms& forms);

/// What of a user's environment was called.
enum class EnvCall { kReset, kStep, kSave, kLoad };

/// "Mine-v0: environment 3 of 64 in step 17 of its episode: ", the beginning of an error's message.
[[nodiscard]] std::string describe_call(const Spec& spec, EnvCall call, std::size_t env, std::size_t count,
                                        int elapsed_steps);

/// Runs what calls into the user's code. Whatever it throws, but for our own defects, becomes a Failure that begins
/// with place().
template <typename Failure, typename Place, typename Action>
void guard_call(const Place& place, Action&& action) {
  try {
    action();
  } catch (const InvariantError&) {
    throw;
  } catch (const std::exception& error) {
    throw Failure(place() + error.what());
  } catch (...) {
    throw Failure(place() + "it threw something that is not a std::exception");
  }
}

}  // namespace tandem::rl
