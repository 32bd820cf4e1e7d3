// rl/env/env_registry.h: the environments of a program by their names: Tandem's own, the program's, those of plugins.
//
//   EnvRegistry registry = EnvRegistry::native();
//   registry.add<Corridor>();
//   registry.load_plugin("./libmine.so");
//   std::unique_ptr<EnvGroup> group = registry.make("Mine-v0", 64);
//
// Environments of several agents are entries of a kind of their own; no name may be used for both kinds.
// A registry is a plain value that is copied freely. There is no global one: a program can make what it has added.
// Entries cross the border to plugins, which must have been compiled with the same layout of them (plugin.h).
// Threads: const members from several threads at once; changes by one thread while no other uses the registry.
// Ownership: groups do not refer to the registry. A loaded plugin stays loaded until the process ends, so that groups,
// and errors thrown by them, never outlive their code.
#pragma once
#include <concepts>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/simulator_group.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"

namespace tandem::rl {

class WrapperChain;  // wrappers/wrapper_list.h

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
  /// The options that can be set of the environment (env_options.h).
  std::vector<EnvOption> options = {};
  /// As `spec` and `make`, with options; empty functions where there are none. EnvRegistry::set_options() puts them in
  /// the place of those two. Called from several threads at once, as `make`.
  std::function<ItsSpec(const EnvOptionTexts& options)> spec_with = {};
  std::function<std::unique_ptr<Group>(int count, const EnvOptionTexts& options)> make_with = {};
  /// Why no wrapper that steps by rows (EnvWrapper::needs_rows) may be put around it, with what to do instead. Empty
  /// where one may.
  std::string no_rows = {};
};
using EnvEntry = Entry<Spec, EnvGroup>;
using MultiAgentEntry = Entry<MultiAgentSpec, MultiAgentGroup>;

/// Environments that are not listed one by one but known by how their names begin: "gymnasium:CartPole-v1".
struct EnvKind {
  /// "gymnasium:"
  std::string prefix;
  /// How names are written and what they need, for listings.
  std::string usage, help;
  /// The entry of such a name with these options, whose names are the kind's own. Throws ConfigError. Called from
  /// several threads at once.
  std::function<std::variant<EnvEntry, MultiAgentEntry>(const std::string& id, const EnvOptionTexts& options)> entry;
};

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
  const auto new_env = [] { return std::make_unique<Env>(); };
  const auto spec_with = [](const EnvOptionTexts& options) -> Spec {
    if constexpr (requires { Env::spec(); }) {
      return with_metrics<Env>(Spec(Env::spec()));
    } else {
      Env env;
      OptionGiver<Env>(options).begin(env);
      return with_metrics<Env>(Spec(env.spec()));
    }
  };
  EnvEntry entry{.spec = spec_with({}), .make = [new_env](int count) -> std::unique_ptr<EnvGroup> {
                   return std::make_unique<EnvGroupOf<Env>>(count, new_env);
                 }};
  if constexpr (HasOptions<Env>) {
    entry.options = Env::options().list();
    entry.spec_with = spec_with;
    entry.make_with = [new_env](int count, const EnvOptionTexts& options) -> std::unique_ptr<EnvGroup> {
      return std::make_unique<EnvGroupOf<Env>>(count, new_env, options);
    };
  }
  return entry;
}
/// The entry of a user's struct of several agents.
template <HasSeveralAgents Env>
[[nodiscard]] MultiAgentEntry entry_of() {
  const auto spec = [] { return with_metrics<Env>(MultiAgentSpec(Env::spec())); };
  MultiAgentEntry entry{.spec = spec(), .make = [](int count) -> std::unique_ptr<MultiAgentGroup> {
                          return std::make_unique<MultiAgentGroupOf<Env>>(count);
                        }};
  if constexpr (HasOptions<Env>) {
    entry.options = Env::options().list();
    entry.spec_with = [spec](const EnvOptionTexts& /*options*/) { return spec(); };
    entry.make_with = [](int count, const EnvOptionTexts& options) -> std::unique_ptr<MultiAgentGroup> {
      return std::make_unique<MultiAgentGroupOf<Env>>(count, options);
    };
  }
  return entry;
}

/// The entry of a class that steps many environments at once (simulator_group.h). A spec() that is not static is asked
/// of an object of one environment, which is made for it; errors are those of simulator_group().
template <SimulatesMany Sim>
[[nodiscard]] EnvEntry entry_of() {
  const auto spec_with = [](const EnvOptionTexts& options) -> Spec {
    if constexpr (requires { Sim::spec(); }) {
      return Sim::spec();
    } else {
      return simulator_group<Sim>(1, options)->spec();
    }
  };
  EnvEntry entry{.spec = spec_with({}), .make = [](int count) { return simulator_group<Sim>(count); }};
  if constexpr (ConfiguresEach<Sim>) {
    entry.options = Sim::options().list();
    entry.spec_with = spec_with;
    entry.make_with = simulator_group<Sim>;
  }
  return entry;
}
/// The entry of an EnvGroup of a user's own, whose constructor takes the number of environments. The spec is asked of a
/// group of one, which is made for it; what its constructor throws passes unchanged. It has no options.
template <std::derived_from<EnvGroup> Group>
[[nodiscard]] EnvEntry entry_of() {
  return {.spec = Group(1).spec(),
          .make = [](int count) -> std::unique_ptr<EnvGroup> { return std::make_unique<Group>(count); }};
}

/// Environments by name.
class EnvRegistry {
 public:
  /// A registry without any environment.
  EnvRegistry() = default;
  /// Tandem's own: CartPole-v1, Acrobot-v1, MountainCar-v0, MountainCarContinuous-v0, Pendulum-v1, Catch-v0,
  /// BitFlipping-v0 and the environments of memory_envs.h; with several agents MultiAgentCartPole-v0 and KuhnPoker-v0.
  [[nodiscard]] static EnvRegistry native();

  /// Adds a user's struct (env_concepts.h), a class that steps many at once (simulator_group.h) or an EnvGroup of a
  /// user's own, under the id of its spec.
  template <typename Env>
  void add() {
    add(entry_of<Env>());
  }
  /// Adds an entry. Throws ConfigError when the spec has faults or its id is taken.
  void add(EnvEntry entry);
  /// Adds an environment of several agents: a user's struct (multi_agent_adapter.h), or a MultiAgentGroup of a user's
  /// own. Throws as add() does.
  template <typename Env>
  void add_multi_agent() {
    add(entry_of<Env>());
  }
  void add(MultiAgentEntry entry);
  /// Adds all environments of a plugin (plugin.h), or none. Throws ConfigError when the file is missing, is no plugin,
  /// was built for another tandem, throws while registering, or brings a spec with faults or an id that is taken.
  void load_plugin(const std::filesystem::path& path);

  /// Adds a kind; environments of it are there once set_options() was called with their ids.
  void add_kind(EnvKind kind) { kinds_.push_back(std::move(kind)); }
  [[nodiscard]] const std::vector<EnvKind>& kinds() const { return kinds_; }
  /// The kind of this id; null when it is of none.
  [[nodiscard]] const EnvKind* kind_of(std::string_view id) const;

  /// Groups of this id, and its spec, have these options from now on. Throws ConfigError naming all faults of them, and
  /// when there is no environment of this id or its spec has faults with them.
  void set_options(std::string_view id, const EnvOptionTexts& options);
  /// Groups of this id, and its spec, have these wrappers from now on (wrappers/wrapper_list.h), the first one nearest
  /// to the environment. To be called behind set_options(), which would take them off again. Throws ConfigError naming
  /// all faults, and for an environment of several agents.
  void set_wrappers(std::string_view id, const std::vector<std::string>& wrappers);
  /// For what makes groups of an environment otherwise than its entry does, such as in processes: the spec within its
  /// wrappers, and the groups that `make` makes of that spec, with the wrappers around.
  [[nodiscard]] const Spec& inner_spec(std::string_view id) const;
  /// The stacks of frames that its wrappers make, for memories that keep each frame once.
  [[nodiscard]] FrameStacks frame_stacks(std::string_view id) const;
  [[nodiscard]] std::function<std::unique_ptr<EnvGroup>(int count)> with_wrappers(
      std::string_view id, std::function<std::unique_ptr<EnvGroup>(int count)> make) const;
  /// Groups of this id, of one agent, are made by `make` from now on; the rest of its entry stays. Throws ConfigError
  /// when there is no such environment.
  void set_maker(std::string_view id, std::function<std::unique_ptr<EnvGroup>(int count)> make);
  /// The options of an environment of one agent or of several; throws when there is none of this id. Those of a kind
  /// have none that could be listed.
  [[nodiscard]] const std::vector<EnvOption>& options(std::string_view id) const;

  /// A group of `count` environments. Throws ConfigError, with the nearest known name, when there is none of this id,
  /// and when it has several agents.
  [[nodiscard]] std::unique_ptr<EnvGroup> make(std::string_view id, int count) const;
  /// The spec of an environment of one agent; throws as make() does.
  [[nodiscard]] const Spec& spec(std::string_view id) const { return find(id).spec; }
  /// All environments of one agent, in the order of their names.
  [[nodiscard]] const std::vector<EnvEntry>& entries() const { return entries_; }

  /// The entry of an environment of several agents; null when there is none of this id.
  [[nodiscard]] const MultiAgentEntry* find_multi_agent(std::string_view id) const;
  /// All environments of several agents, in the order of their names.
  [[nodiscard]] const std::vector<MultiAgentEntry>& multi_agent_entries() const { return multi_agent_entries_; }

 private:
  // Throws ConfigError, with the nearest known name, for an id that is not there, or is one of several agents.
  [[nodiscard]] const EnvEntry& find(std::string_view id) const;
  // Takes out an entry of either kind; nothing where there is none.
  void remove(std::string_view id);
  // The origin of the entry that has taken `id`, of either kind; null while the id is free.
  [[nodiscard]] const std::string* origin_of(std::string_view id) const;

  // Both are sorted by id, so that an id is found by bisection and listings need no sorting.
  std::vector<EnvEntry> entries_;
  std::vector<MultiAgentEntry> multi_agent_entries_;
  std::vector<EnvKind> kinds_;
  // By id, of environments that have wrappers.
  std::map<std::string, std::shared_ptr<const WrapperChain>, std::less<>> wrappers_;
};

}  // namespace tandem::rl
