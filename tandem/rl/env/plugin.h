// rl/env/plugin.h: makes a shared object of a user's a plugin, in which `tandem train --plugin ./libmine.so` finds
// environments.
//
//   #include <tandem/rl/env/plugin.h>
//   struct Mine { ... };                  // as env_concepts.h says; with several agents, as multi_agent_adapter.h says
//   TANDEM_ENV_PLUGIN(Mine)               // or several: TANDEM_ENV_PLUGIN(Mine, Other)
//
// A class that steps many environments at once (simulator_group.h) and an EnvGroup of a user's own are named in the
// same macro, also beside structs that are one environment. What a class is, is told by its constructor: that of one
// for many environments takes their number.
//
// The macro defines one C function, `tandem_env_plugin`. It returns a record whose head never changes, so that any
// tandem can judge any plugin before it calls into the plugin's C++ code: a plugin must be built against headers of the
// same interface and with the same C++ library, since specs and groups pass the border as C++ objects.
//
// An exception of spec() or of a constructor becomes an error message. An exception of the initialiser of a global
// variable cannot be caught by anyone and ends the process: open files and licences in a constructor or in reset(), not
// in a global.
//
// Threads: entries are added by the thread that loads the plugin, before any environment is made.
// Ownership: a loaded plugin is never unloaded, so the record, the entries and the code behind them stay valid until
// the process ends.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {

/// Counts the changes of spec.h, env_group.h, canvas.h, env_options.h, numpy_random.h and of the Entry in
/// env_registry.h that an older plugin would not survive. A plugin with another number is refused with a message before
/// its add_entries() is called.
inline constexpr std::uint32_t kEnvInterface = 5;

/// The C++ library, and the layout of its types, that this file was compiled for. Compared as text. Standard containers
/// have another layout in each of these, and the specs that pass the border hold some.
inline constexpr const char* kCxxLibrary =
#if defined(_LIBCPP_VERSION)
    "libc++"
#elif defined(_GLIBCXX_DEBUG)
    "libstdc++, debug mode"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI == 0
    "libstdc++, ABI before C++11"
#elif defined(__GLIBCXX__)
    "libstdc++"
#else
    "another C++ library"
#endif
    ;

/// The environments of a plugin. The program takes them into its registry (EnvRegistry::load_plugin()). Entries keep
/// the order in which they were added.
struct PluginEntries {
  std::vector<EnvEntry> of_one;
  std::vector<MultiAgentEntry> of_several;

  /// Adds a user's struct or class, as entry_of() tells them apart. Of a struct its spec() tells whether it has one
  /// agent or several. Throws what spec() throws.
  template <typename Env>
  void add() {
    if constexpr (HasSeveralAgents<Env>) {
      of_several.push_back(entry_of<Env>());
    } else {
      of_one.push_back(entry_of<Env>());
    }
  }
};

/// Plain C: read by tandems of all versions. New fields go to the end. A tandem reads no field beyond the `info_bytes`
/// of the plugin.
struct PluginInfo {
  // All numbers are those of the headers that the plugin was compiled with. The first is sizeof(PluginInfo), so that a
  // later tandem knows which fields there are; then kEnvInterface and kCxxLibrary.
  std::uint32_t info_bytes;
  std::uint32_t interface;
  /// A text of the plugin's, which ends with a zero.
  const char* cxx_library;
  // sizeof(Spec) and sizeof(EnvEntry): headers that were changed without a new interface number are noticed.
  std::uint32_t spec_bytes;
  std::uint32_t entry_bytes;
  /// Appends the plugin's environments. C++ code, called only when all of the above agree; may throw. It is called once
  /// for each loading; the entries that it adds are moved into the registry.
  void (*add_entries)(PluginEntries& entries);
  // sizeof(MultiAgentSpec) and sizeof(MultiAgentEntry). Any difference is a ConfigError that says to rebuild the
  // plugin.
  std::uint32_t multi_agent_spec_bytes;
  std::uint32_t multi_agent_entry_bytes;
};

/// The record of a plugin with these environments; TANDEM_ENV_PLUGIN returns it. Everything in it is known when the
/// plugin is compiled, so returning it runs no code of the user's.
template <typename... Envs>
[[nodiscard]] constexpr PluginInfo plugin_info() {
  return {.info_bytes = sizeof(PluginInfo),
          .interface = kEnvInterface,
          .cxx_library = kCxxLibrary,
          .spec_bytes = sizeof(Spec),
          .entry_bytes = sizeof(EnvEntry),
          .add_entries = [](PluginEntries& entries) { (entries.add<Envs>(), ...); },
          .multi_agent_spec_bytes = sizeof(MultiAgentSpec),
          .multi_agent_entry_bytes = sizeof(MultiAgentEntry)};
}

}  // namespace tandem::rl

/// Makes the shared object a plugin with one or several environments. To be used once in a shared object, outside of
/// any namespace.
#define TANDEM_ENV_PLUGIN(...)                                                                            \
  extern "C" __attribute__((visibility("default"))) const ::tandem::rl::PluginInfo* tandem_env_plugin() { \
    static const ::tandem::rl::PluginInfo info = ::tandem::rl::plugin_info<__VA_ARGS__>();                \
    return &info;                                                                                         \
  }                                                                                                       \
  static_assert(true, "so that a semicolon may follow")
