#include "coin.h"

// As a plugin that was built with another C++ library: its functions must not be called.
extern "C" __attribute__((visibility("default"))) const tandem::rl::PluginInfo* tandem_env_plugin() {
  static const tandem::rl::PluginInfo info = [] {
    tandem::rl::PluginInfo spoilt = tandem::rl::plugin_info<Coin>();
    spoilt.cxx_library = "libc++";
    spoilt.add_entries = nullptr;
    return spoilt;
  }();
  return &info;
}
