// rl/env/env_entry.h: an environment that can be made by its name: its spec and how a group of it is made.
//
// Entries cross the border to plugins, which must have been compiled with the same layout of them (plugin.h).
// Threads: plain values; `make` may be called by several threads at once.
// Ownership: an entry holds its function and its spec by value; the groups that it makes belong to the caller.
// Errors: `make` throws what the group's constructor throws: ConfigError for the count or the spec, EnvError otherwise.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <string>

#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/multi_agent_adapter.h"

namespace tandem::rl {

/// The entry of an environment of one agent (EnvEntry) or of several (MultiAgentEntry). The spec is kept beside the
/// function, so that listings and checks of a configuration need no environment.
template <typename ItsSpec, typename Group>
struct Entry {
  /// spec.id is the name.
  ItsSpec spec;
  /// Makes a group of `count` environments. Called from several threads at once, so it shares no state between calls.
  /// Throws ConfigError unless count >= 1.
  std::function<std::unique_ptr<Group>(int count)> make;
  /// Where the environment comes from, for listings: "tandem", "this program", or a plugin's path. It is no part of the
  /// environment, and nothing is decided by it.
  std::string origin = {};
};
using EnvEntry = Entry<Spec, EnvGroup>;
using MultiAgentEntry = Entry<MultiAgentSpec, MultiAgentGroup>;

/// Whether a user's struct is an environment of several agents (multi_agent_adapter.h) and not of one (env_concepts.h).
/// A struct whose spec() is not static has one agent, because MultiAgentGroupOf needs a static one.
template <typename Env>
concept HasSeveralAgents = requires {
  { Env::spec() } -> std::convertible_to<MultiAgentSpec>;
};

/// The entry of a user's struct of one agent. A spec() that is not static is asked of one that is made for it. Making
/// that one may throw what the struct's constructor throws; the exception passes unchanged.
template <typename Env>
[[nodiscard]] EnvEntry entry_of() {
  const auto make = [](int count) -> std::unique_ptr<EnvGroup> { return std::make_unique<EnvGroupOf<Env>>(count); };
  if constexpr (requires { Env::spec(); }) {
    return {Env::spec(), make};
  } else {
    return {Env().spec(), make};
  }
}
/// The entry of a user's struct of several agents.
template <HasSeveralAgents Env>
[[nodiscard]] MultiAgentEntry entry_of() {
  return {Env::spec(), [](int count) -> std::unique_ptr<MultiAgentGroup> {
            return std::make_unique<MultiAgentGroupOf<Env>>(count);
          }};
}

}  // namespace tandem::rl
