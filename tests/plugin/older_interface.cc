#include "coin.h"

// As a plugin that was built for an earlier tandem: its functions must not be called.
extern "C" __attribute__((visibility("default"))) const tandem::rl::PluginInfo* tandem_env_plugin() {
  static const tandem::rl::PluginInfo info = [] {
    tandem::rl::PluginInfo spoilt = tandem::rl::plugin_info<Coin>();
    spoilt.interface = 0;
    spoilt.add_entries = nullptr;
    return spoilt;
  }();
  return &info;
}
