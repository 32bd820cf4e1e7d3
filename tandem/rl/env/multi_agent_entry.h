// rl/env/multi_agent_entry.h: one environment of several agents that can be made by its name.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/multi_agent_group.h"

namespace tandem::rl {

struct MultiAgentEntry {
  MultiAgentSpec spec;  // spec.id is the name
  /// Makes a group of `count` environments. Called from several threads at once, so it shares no state between calls.
  std::function<std::unique_ptr<MultiAgentGroup>(int count)> make;
  std::string origin = {};  // as EnvEntry's
};

/// The entry of a user's struct (multi_agent_adapter.h).
template <typename Env>
[[nodiscard]] MultiAgentEntry multi_agent_entry_of() {
  return {Env::spec(), [](int count) -> std::unique_ptr<MultiAgentGroup> {
            return std::make_unique<MultiAgentGroupOf<Env>>(count);
          }};
}

}  // namespace tandem::rl
