// rl/env/check/env_check.h: looks for what is wrong with an environment, and for what makes it hard to learn.
//
//   EnvCheck check = check_env(registry, "Mine-v0", {});
//   for (const Finding& finding : check.findings) std::cout << finding.text << '\n';
//
// The environment is played with random actions, several times from equal and from other seeds, and what the plays give
// is compared. It is what gymnasium's and stable-baselines3's checkers look at, and more: whether equal seeds give
// equal episodes, whether environments share state, whether each part of the action has an effect, whether saved states
// are exact, what scale observations and rewards have, and what an environment does to the process.
//
// Threads: the calling thread, alone; an environment that never returns from a call is not interrupted.
// Errors: what the environment throws becomes a finding. ConfigError for a name that is not there.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/rl/env/check/observed.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {

/// The weight of a finding.
enum class Weight {
  kFault,    // runs will fail, or give wrong results: mend it
  kWarning,  // most likely a mistake
  kAdvice,   // it can be learned, but better otherwise
};

/// A thing that is wrong or could be better, in one place; a check has one for each.
struct Finding {
  Weight weight = Weight::kFault;
  /// Its kind in a word: "determinism", "final-observation", ...
  std::string kind;
  /// The numbers and the place where it was seen, and the next step.
  std::string text;
};

/// The size of the plays. More steps find more of what is rare, and take longer.
struct EnvCheckOptions {
  int environments = 4;
  /// Steps of each environment in the longest of the plays; fewer where observations are large.
  std::int64_t steps = 2000;
  std::uint64_t seed = 1;
};

/// The result of a check: findings for people, and the numbers that they were made of.
struct EnvCheck {
  /// The environment's; one of one agent is seen as one of several.
  MultiAgentSpec spec;
  /// By weight, the heaviest first.
  std::vector<Finding> findings;
  /// The longest play; only its first steps when it failed.
  Observed observed;
  /// Of all environments together, on this thread.
  double steps_per_second = 0;

  [[nodiscard]] bool has(Weight weight) const;
};

/// Checks an environment of one agent or of several. An environment of one has an agent named "agent".
[[nodiscard]] EnvCheck check_env(const EnvRegistry& environments, std::string_view id, const EnvCheckOptions& options);

}  // namespace tandem::rl
