#include "tandem/app/config/former_names.h"

#include <algorithm>
#include <array>

namespace tandem::app {
namespace {

struct Former {
  std::string_view key, now;
};

constexpr std::array kFormer{
    Former{"dd_ppo.survivors", "survivors"},
    Former{"dd_ppo.deadline_seconds", "deadline_seconds"},
};

}  // namespace

std::string_view current_name(std::string_view key) {
  const auto* const found = std::ranges::find(kFormer, key, &Former::key);
  return found == kFormer.end() ? key : found->now;
}

}  // namespace tandem::app
