#include "coin.h"

// As a plugin with other headers of environments with several agents: its functions must not be called.
extern "C" __attribute__((visibility("default"))) const tandem::rl::PluginInfo* tandem_env_plugin() {
  static const tandem::rl::PluginInfo info = [] {
    tandem::rl::PluginInfo spoilt = tandem::rl::plugin_info<Coin>();
    spoilt.multi_agent_entry_bytes += 8;
    spoilt.add_entries = nullptr;
    return spoilt;
  }();
  return &info;
}
