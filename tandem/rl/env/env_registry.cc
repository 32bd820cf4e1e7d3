#include "tandem/rl/env/env_registry.h"

#include <algorithm>
#include <cctype>

#include "tandem/base/edit_distance.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/native/catch.h"
#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/native/kuhn_poker.h"
#include "tandem/rl/env/native/memory_envs.h"
#include "tandem/rl/env/native/multi_agent_cartpole.h"

namespace tandem::rl {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// The known id that `id` is most likely meant to be: capitals do not count, nor does a missing version ("cartpole").
// Empty when even the nearest one differs in more than a third of its letters.
std::string nearest_id(std::string_view id, const std::vector<std::string>& all) {
  const std::string wanted = lower(id);
  std::string nearest;
  int best = std::max(2, static_cast<int>(wanted.size()) / 3) + 1;
  for (const std::string& each : all) {
    const std::string known = lower(each);
    const int distance =
        std::min(edit_distance(wanted, known), edit_distance(wanted, known.substr(0, known.rfind('-'))));
    if (distance < best) {
      best = distance;
      nearest = each;
    }
  }
  return nearest;
}

// The message for an id that is not registered: the nearest name if one is near, else all names.
std::string unknown(std::string_view id, const std::vector<std::string>& all) {
  std::string text = concat("there is no environment '", id, "'");
  if (all.empty()) return text + "; none are registered";
  if (const std::string nearest = nearest_id(id, all); !nearest.empty()) {
    return concat(text, "; did you mean '", nearest, "'?");
  }
  text += "; known are ";
  for (const std::string& each : all) text += concat(&each == &all.front() ? "" : ", ", each);
  return text + "; others come from plugins or are added by a program of your own";
}

// The place of an id in entries that are sorted by id: where it is, or where it belongs.
template <typename Entry>
auto position(const std::vector<Entry>& entries, std::string_view id) {
  return std::ranges::lower_bound(entries, id, {}, [](const Entry& e) { return std::string_view(e.spec.id); });
}

template <typename Entry>
const Entry* found(const std::vector<Entry>& entries, std::string_view id) {
  const auto at = position(entries, id);
  return at == entries.end() || at->spec.id != id ? nullptr : &*at;
}

// Refuses an entry that cannot be made or whose name is taken, and gives one without an origin that of the program.
// Specs are checked by the caller, since the two kinds of entries have different ones.
template <typename Entry>
void check_entry(Entry& entry, const std::string* taken_by) {
  if (entry.origin.empty()) entry.origin = "this program";
  if (!entry.make) throw ConfigError(concat("environment '", entry.spec.id, "': it has no function that makes it"));
  if (taken_by == nullptr) return;
  throw ConfigError(concat("environment '", entry.spec.id, "' of ", entry.origin, ": the name is taken by one of ",
                           *taken_by, "; give yours another id"));
}

template <typename Entry>
Entry of_tandem(Entry entry) {
  entry.origin = "tandem";
  return entry;
}

}  // namespace

// Every native environment is listed here, and nowhere else.
EnvRegistry EnvRegistry::native() {
  EnvRegistry registry;
  for (const auto& make :
       {make_acrobot, make_cartpole, make_mountain_car, make_mountain_car_continuous, make_pendulum}) {
    registry.add({make(1)->spec(), make, "tandem"});
  }
  for (const auto& make : {make_masked_cartpole, make_masked_pendulum}) registry.add({make(1)->spec(), make, "tandem"});
  registry.add(of_tandem(entry_of<Catch>()));
  registry.add(of_tandem(entry_of<RepeatPrevious>()));
  registry.add(of_tandem(entry_of<MultiAgentCartPole>()));
  registry.add(of_tandem(entry_of<KuhnPoker>()));
  return registry;
}

const std::string* EnvRegistry::origin_of(std::string_view id) const {
  if (const EnvEntry* entry = found(entries_, id)) return &entry->origin;
  const MultiAgentEntry* entry = find_multi_agent(id);
  return entry == nullptr ? nullptr : &entry->origin;
}

void EnvRegistry::add(EnvEntry entry) {
  check_spec(entry.spec);
  check_entry(entry, origin_of(entry.spec.id));
  entries_.insert(position(entries_, entry.spec.id), std::move(entry));
}

void EnvRegistry::add(MultiAgentEntry entry) {
  check_spec(entry.spec);
  check_entry(entry, origin_of(entry.spec.id));
  multi_agent_entries_.insert(position(multi_agent_entries_, entry.spec.id), std::move(entry));
}

std::unique_ptr<EnvGroup> EnvRegistry::make(std::string_view id, int count) const { return find(id).make(count); }

const MultiAgentEntry* EnvRegistry::find_multi_agent(std::string_view id) const {
  return found(multi_agent_entries_, id);
}

// The message of an unknown id considers names of both kinds.
const EnvEntry& EnvRegistry::find(std::string_view id) const {
  if (const EnvEntry* entry = found(entries_, id)) return *entry;
  if (find_multi_agent(id) != nullptr)
    throw ConfigError(concat("environment '", id, "' has several agents; what is asked for takes one"));
  std::vector<std::string> all;
  for (const EnvEntry& entry : entries_) all.push_back(entry.spec.id);
  for (const MultiAgentEntry& entry : multi_agent_entries_) all.push_back(entry.spec.id);
  std::ranges::sort(all);
  throw ConfigError(unknown(id, all));
}

}  // namespace tandem::rl
