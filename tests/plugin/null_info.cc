#include "coin.h"
extern "C" __attribute__((visibility("default"))) const tandem::rl::PluginInfo* tandem_env_plugin() { return nullptr; }
