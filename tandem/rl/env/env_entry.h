// rl/env/env_entry.h: one environment that can be made by its name: its spec and how a group of it is made.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

struct EnvEntry {
  Spec spec;  // spec.id is the name
  /// Makes a group of `count` environments. Called from several threads at once, so it shares no state between calls.
  std::function<std::unique_ptr<EnvGroup>(int count)> make;
  std::string origin = {};  // where it comes from, for listings: "tandem", "this program", a plugin's path
};

/// The entry of a user's struct (env_concepts.h). A spec() that is not static is asked of one that is made for it.
template <typename Env>
[[nodiscard]] EnvEntry entry_of() {
  const auto make = [](int count) -> std::unique_ptr<EnvGroup> { return std::make_unique<EnvGroupOf<Env>>(count); };
  if constexpr (requires { Env::spec(); }) {
    return {Env::spec(), make};
  } else {
    return {Env().spec(), make};
  }
}

}  // namespace tandem::rl
