#include "tandem/rl/env/env_registry.h"

#include <algorithm>
#include <cctype>

#include "tandem/base/edit_distance.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/catch.h"
#include "tandem/rl/env/classic_group.h"
#include "tandem/rl/env/memory_envs.h"
#include "tandem/rl/env/plugin_library.h"

namespace tandem::rl {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// The known id that `id` is most likely meant to be: capitals do not count, nor does a missing version ("cartpole").
// Empty when even the nearest one differs in more than a third of its letters.
std::string nearest_id(std::string_view id, const std::vector<EnvEntry>& entries) {
  const std::string wanted = lower(id);
  std::string nearest;
  int best = std::max(2, static_cast<int>(wanted.size()) / 3) + 1;
  for (const EnvEntry& entry : entries) {
    const std::string known = lower(entry.spec.id);
    const int distance =
        std::min(edit_distance(wanted, known), edit_distance(wanted, known.substr(0, known.rfind('-'))));
    if (distance < best) {
      best = distance;
      nearest = entry.spec.id;
    }
  }
  return nearest;
}

std::string unknown(std::string_view id, const std::vector<EnvEntry>& entries) {
  std::string text = concat("there is no environment '", id, "'");
  if (entries.empty()) return text + "; none are registered";
  if (const std::string nearest = nearest_id(id, entries); !nearest.empty()) {
    return concat(text, "; did you mean '", nearest, "'?");
  }
  text += "; known are ";
  for (const EnvEntry& entry : entries) text += concat(&entry == &entries.front() ? "" : ", ", entry.spec.id);
  return text + "; others come from plugins or are added by a program of your own";
}

auto position(const std::vector<EnvEntry>& entries, std::string_view id) {
  return std::ranges::lower_bound(entries, id, {}, [](const EnvEntry& e) { return std::string_view(e.spec.id); });
}

}  // namespace

EnvRegistry EnvRegistry::native() {
  EnvRegistry registry;
  for (const auto& make :
       {make_acrobot, make_cartpole, make_mountain_car, make_mountain_car_continuous, make_pendulum}) {
    registry.add({make(1)->spec(), make, "tandem"});
  }
  for (const auto& make : {make_masked_cartpole, make_masked_pendulum}) registry.add({make(1)->spec(), make, "tandem"});
  for (EnvEntry entry : {entry_of<Catch>(), entry_of<RepeatPrevious>()}) {
    entry.origin = "tandem";
    registry.add(std::move(entry));
  }
  return registry;
}

void EnvRegistry::add(EnvEntry entry) {
  check_spec(entry.spec);
  if (entry.origin.empty()) entry.origin = "this program";
  if (!entry.make) throw ConfigError(concat("environment '", entry.spec.id, "': it has no function that makes it"));
  const auto at = position(entries_, entry.spec.id);
  if (at != entries_.end() && at->spec.id == entry.spec.id) {
    throw ConfigError(concat("environment '", entry.spec.id, "' of ", entry.origin, ": the name is taken by one of ",
                             at->origin, "; give yours another id"));
  }
  entries_.insert(at, std::move(entry));
}

void EnvRegistry::load_plugin(const std::filesystem::path& path) {
  EnvRegistry larger = *this;  // so that a fault in the second environment does not leave the first
  for (EnvEntry& entry : load_plugin_library(path)) larger.add(std::move(entry));
  entries_ = std::move(larger.entries_);
}

std::unique_ptr<EnvGroup> EnvRegistry::make(std::string_view id, int count) const { return find(id).make(count); }

const EnvEntry& EnvRegistry::find(std::string_view id) const {
  const auto at = position(entries_, id);
  if (at == entries_.end() || at->spec.id != id) throw ConfigError(unknown(id, entries_));
  return *at;
}

}  // namespace tandem::rl
