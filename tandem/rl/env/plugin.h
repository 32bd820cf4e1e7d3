// rl/env/plugin.h: what a shared object of a user's contains so that `tandem train --plugin ./libmine.so` finds its
// environments.
//
//   #include <tandem/rl/env/plugin.h>
//   struct Mine { ... };                  // env_concepts.h, or of several agents multi_agent_adapter.h
//   TANDEM_ENV_PLUGIN(Mine)               // or several: TANDEM_ENV_PLUGIN(Mine, Other)
//
// The macro defines one C function, `tandem_env_plugin`. It returns a record whose head never changes, so that any
// tandem can tell any plugin apart before it calls into C++ code of it: a plugin must be built against headers of the
// same interface and with the same C++ library, since specs and groups pass the border as C++ objects.
//
// What spec() or a constructor throws becomes an error message. What the initialiser of a global variable throws cannot
// be caught by anyone and ends the process: open files and licences in a constructor or in reset(), not in a global.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "tandem/rl/env/env_entry.h"

namespace tandem::rl {

/// Counts the changes of spec.h, env_group.h, env_entry.h, numpy_random.h, multi_agent_spec.h and multi_agent_group.h
/// that an older plugin would not survive.
inline constexpr std::uint32_t kEnvInterface = 2;

/// Which C++ library, and which layout of its types, this file was compiled for.
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

/// The environments of a plugin: of one agent, and of several.
struct PluginEntries {
  std::vector<EnvEntry> of_one;
  std::vector<MultiAgentEntry> of_several;

  template <typename Env>
  void add() {
    if constexpr (HasSeveralAgents<Env>) {
      of_several.push_back(entry_of<Env>());
    } else {
      of_one.push_back(entry_of<Env>());
    }
  }
};

/// Plain C: read by tandems of all versions. New fields go to the end.
struct PluginInfo {
  std::uint32_t info_bytes;   // sizeof(PluginInfo) where the plugin was compiled
  std::uint32_t interface;    // kEnvInterface, likewise
  const char* cxx_library;    // kCxxLibrary, likewise
  std::uint32_t spec_bytes;   // sizeof(Spec), likewise
  std::uint32_t entry_bytes;  // sizeof(EnvEntry), likewise
  /// Appends the plugin's environments. C++ code, called only when all of the above agree; may throw.
  void (*add_entries)(PluginEntries& entries);
  std::uint32_t multi_agent_spec_bytes;   // sizeof(MultiAgentSpec), likewise
  std::uint32_t multi_agent_entry_bytes;  // sizeof(MultiAgentEntry), likewise
};

/// The record of a plugin with these environments.
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

/// Makes the shared object a plugin with one or several environments; once in a shared object.
#define TANDEM_ENV_PLUGIN(...)                                                                            \
  extern "C" __attribute__((visibility("default"))) const ::tandem::rl::PluginInfo* tandem_env_plugin() { \
    static const ::tandem::rl::PluginInfo info = ::tandem::rl::plugin_info<__VA_ARGS__>();                \
    return &info;                                                                                         \
  }                                                                                                       \
  static_assert(true, "so that a semicolon may follow")
