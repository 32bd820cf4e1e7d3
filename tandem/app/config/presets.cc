#include "tandem/app/config/presets.h"

#include <algorithm>

namespace tandem::app {

const Preset* find_preset(std::string_view algo, std::string_view env) {
  const std::span<const Preset> all = presets();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Preset& p) { return p.algo == algo && p.env == env; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace tandem::app
