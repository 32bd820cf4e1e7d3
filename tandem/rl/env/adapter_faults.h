// rl/env/adapter_faults.h: the words of EnvGroupOf and MultiAgentGroupOf when a user's struct and its spec disagree,
// and when user code throws.
//
// These functions are apart from the adapters because they do not depend on the user's type and so are compiled once.
// Threads: free functions on values.
#pragma once
#include <cstddef>
#include <exception>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/spec.h"

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
enum class EnvCall { kReset, kStep, kSave, kLoad };

/// The beginning of an error's message: "Mine-v0: environment 3 of 64 in step 17 of its episode: ". `elapsed_steps` are
/// those before the step that failed, so steps count from 1 in the message.
[[nodiscard]] std::string describe_call(const Spec& spec, EnvCall call, std::size_t env, std::size_t count,
                                        int elapsed_steps);

/// Runs `action`, which calls user code. An exception of any type becomes a `Failure` (EnvError, CheckpointError) whose
/// message is place() and then what(). InvariantError passes through: it reports a defect of ours. place() is called
/// only when something was thrown, so a step without errors makes no text. An exception that is no std::exception has
/// no text of its own, so a fixed sentence stands for it.
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
