#include "tandem/rl/env/env_registry.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "tandem/base/edit_distance.h"
#include "tandem/base/error.h"
#include "tandem/base/library/shared_library.h"
#include "tandem/base/library/shared_object.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/mujoco_envs.h"
#include "tandem/rl/env/native/bit_flipping.h"
#include "tandem/rl/env/native/catch.h"
#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/native/kuhn_poker.h"
#include "tandem/rl/env/native/memory_envs.h"
#include "tandem/rl/env/native/multi_agent_cartpole.h"
#include "tandem/rl/env/plugin.h"
#include "tandem/rl/env/wrappers/wrapper_list.h"

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
  return text + "; known are " + joined(all) + "; others come from plugins or are added by a program of your own";
}

// The place of an id in entries that are sorted by id: where it is, or where it belongs.
template <typename Entries>
auto position(Entries& entries, std::string_view id) {
  return std::ranges::lower_bound(entries, id, {}, [](const auto& e) { return std::string_view(e.spec.id); });
}

template <typename Entry>
const Entry* found(const std::vector<Entry>& entries, std::string_view id) {
  const auto at = position(entries, id);
  return at == entries.end() || at->spec.id != id ? nullptr : &*at;
}

// Refuses an entry with faults in its spec, that cannot be made or whose name is taken, and gives one without an origin
// that of the program.
template <typename Entry>
void check_entry(Entry& entry, const std::string* taken_by) {
  check_spec(entry.spec);
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

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw ConfigError(concat("plugin '", path.string(), "' ", reason));
}

// Finds the usual mistakes first: dlopen's words for them are about the ELF format, and a file that is cut off would
// kill the process.
void check_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    fail(path, concat("does not exist (looked at ", std::filesystem::absolute(path, error).string(), ")"));
  }
  if (std::filesystem::is_directory(path, error)) fail(path, "is a folder; name the shared object in it");
  const std::string fault = fault_of_shared_object(path);
  if (!fault.empty())
    fail(path, concat(fault, "; build it with CMake's add_library(mine MODULE mine.cc), or copy it again"));
}

// Loads the library, calls its C function and returns its record. The path is made absolute, because a name without a
// slash would be looked for among the system's libraries. The library is never closed, as env_registry.h says.
const PluginInfo& ask(const std::filesystem::path& path) {
  using EntryPoint = const PluginInfo* (*)();
  SharedLibrary library(std::filesystem::absolute(path).string());
  if (!library.why_not().empty()) fail(path, concat("cannot be loaded: ", library.why_not()));
  const auto entry_point = reinterpret_cast<EntryPoint>(library.find("tandem_env_plugin"));
  if (entry_point == nullptr) {
    fail(path,
         "has no environments: the function 'tandem_env_plugin' is missing; add TANDEM_ENV_PLUGIN(YourEnv) to it");
  }
  const PluginInfo* info = entry_point();
  if (info == nullptr) fail(path, "has no environments: 'tandem_env_plugin' returned null");
  return *info;
}

// Nothing of the record is used before its length and interface are right; then the C++ library, then the layouts.
void check_info(const std::filesystem::path& path, const PluginInfo& info) {
  const auto rebuild = "; rebuild the plugin against the headers of this tandem and with its compiler";
  if (info.info_bytes < sizeof(PluginInfo) || info.interface != kEnvInterface) {
    fail(path, concat("was built for environment interface ", info.interface, " and this tandem has ", kEnvInterface,
                      rebuild));
  }
  if (std::strcmp(info.cxx_library, kCxxLibrary) != 0) {
    fail(path, concat("was built with ", info.cxx_library, " and this tandem with ", kCxxLibrary, rebuild));
  }
  if (info.spec_bytes != sizeof(Spec) || info.entry_bytes != sizeof(EnvEntry) ||
      info.multi_agent_spec_bytes != sizeof(MultiAgentSpec) ||
      info.multi_agent_entry_bytes != sizeof(MultiAgentEntry)) {
    fail(path, concat("was built with other layouts (Spec ", info.spec_bytes, " bytes, here ", sizeof(Spec),
                      "; EnvEntry ", info.entry_bytes, ", here ", sizeof(EnvEntry), "; MultiAgentSpec ",
                      info.multi_agent_spec_bytes, ", here ", sizeof(MultiAgentSpec), "; MultiAgentEntry ",
                      info.multi_agent_entry_bytes, ", here ", sizeof(MultiAgentEntry), ")", rebuild));
  }
}

// Runs the plugin's C++ code, which may throw anything.
PluginEntries entries_of(const std::filesystem::path& path, const PluginInfo& info) {
  PluginEntries entries;
  try {
    info.add_entries(entries);
  } catch (const std::exception& error) {
    fail(path, concat("threw while registering its environments: ", error.what()));
  } catch (...) {
    fail(path, "threw while registering its environments, and not a std::exception");
  }
  if (entries.of_one.empty() && entries.of_several.empty()) fail(path, "registered no environment");
  return entries;
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
  registry.add(of_tandem(entry_of<BitFlipping>()));
  registry.add(of_tandem(entry_of<Catch>()));
  registry.add(of_tandem(entry_of<RepeatPrevious>()));
  registry.add(of_tandem(entry_of<MultiAgentCartPole>()));
  registry.add(of_tandem(entry_of<KuhnPoker>()));
  for (EnvEntry& entry : mujoco_entries()) registry.add(std::move(entry));
  return registry;
}

namespace {

template <typename Entry>
void configure(Entry& entry, const EnvOptionTexts& options) {
  check_options(entry.spec.id, entry.options, options);
  if (options.empty()) return;
  const std::string id = entry.spec.id;
  guard_call<ConfigError>([&] { return concat("environment '", id, "' does not take these options: "); },
                          [&] { entry.spec = entry.spec_with(options); });
  check_spec(entry.spec);
  if (entry.spec.id != id) throw ConfigError(concat("with these options ", id, " calls itself ", entry.spec.id));
  entry.make = [make = entry.make_with, options](int count) { return make(count, options); };
}

}  // namespace

const EnvKind* EnvRegistry::kind_of(std::string_view id) const {
  const auto its = std::ranges::find_if(kinds_, [id](const EnvKind& kind) { return id.starts_with(kind.prefix); });
  return its == kinds_.end() ? nullptr : &*its;
}

// find() throws for an id of neither kind.
void EnvRegistry::set_options(std::string_view id, const EnvOptionTexts& options) {
  if (const EnvKind* kind = kind_of(id)) {
    std::variant<EnvEntry, MultiAgentEntry> entry = kind->entry(std::string(id), options);
    remove(id);
    std::visit([this](auto& its) { add(std::move(its)); }, entry);
  } else if (find_multi_agent(id) != nullptr) {
    configure(*position(multi_agent_entries_, id), options);
  } else {
    (void)find(id);
    configure(*position(entries_, id), options);
  }
}

void EnvRegistry::set_wrappers(std::string_view id, const std::vector<std::string>& wrappers) {
  if (find_multi_agent(id) != nullptr) {
    if (wrappers.empty()) return;
    throw ConfigError(concat("environment '", id, "' has several agents, and wrappers are for environments of one"));
  }
  (void)find(id);
  if (wrappers.empty()) return;
  EnvEntry& entry = *position(entries_, id);
  if (wrappers_.find(id) != wrappers_.end()) throw ConfigError(concat("environment '", id, "' has wrappers already"));
  const auto chain = std::make_shared<const WrapperChain>(entry.spec, wrappers);
  if (!entry.no_rows.empty() && !chain->first_by_row().empty())
    throw ConfigError(concat(chain->first_by_row(), ": ", entry.no_rows));
  wrappers_.emplace(id, chain);
  entry.make = with_wrappers(id, entry.make);
  entry.spec = chain->spec();
}

const Spec& EnvRegistry::inner_spec(std::string_view id) const {
  const auto its = wrappers_.find(id);
  return its == wrappers_.end() ? spec(id) : its->second->inner_spec();
}

FrameStacks EnvRegistry::frame_stacks(std::string_view id) const {
  const auto its = wrappers_.find(id);
  return its == wrappers_.end() ? FrameStacks() : its->second->frame_stacks();
}

std::function<std::unique_ptr<EnvGroup>(int count)> EnvRegistry::with_wrappers(
    std::string_view id, std::function<std::unique_ptr<EnvGroup>(int count)> make) const {
  const auto its = wrappers_.find(id);
  if (its == wrappers_.end()) return make;
  return [chain = its->second, make = std::move(make)](int count) { return chain->make(make, count); };
}

void EnvRegistry::remove(std::string_view id) {
  std::erase_if(entries_, [id](const EnvEntry& entry) { return entry.spec.id == id; });
  std::erase_if(multi_agent_entries_, [id](const MultiAgentEntry& entry) { return entry.spec.id == id; });
  if (const auto its = wrappers_.find(id); its != wrappers_.end()) wrappers_.erase(its);
}

void EnvRegistry::set_maker(std::string_view id, std::function<std::unique_ptr<EnvGroup>(int count)> make) {
  (void)find(id);
  position(entries_, id)->make = std::move(make);
}

const std::vector<EnvOption>& EnvRegistry::options(std::string_view id) const {
  static const std::vector<EnvOption> none;
  if (kind_of(id) != nullptr) return none;
  const MultiAgentEntry* entry = find_multi_agent(id);
  return entry != nullptr ? entry->options : find(id).options;
}

const std::string* EnvRegistry::origin_of(std::string_view id) const {
  if (const EnvEntry* entry = found(entries_, id)) return &entry->origin;
  const MultiAgentEntry* entry = find_multi_agent(id);
  return entry == nullptr ? nullptr : &entry->origin;
}

void EnvRegistry::add(EnvEntry entry) {
  check_entry(entry, origin_of(entry.spec.id));
  entries_.insert(position(entries_, entry.spec.id), std::move(entry));
}

void EnvRegistry::add(MultiAgentEntry entry) {
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
  if (const std::string why = why_unknown(id); !why.empty()) throw ConfigError(why);
  std::vector<std::string> all;
  for (const EnvEntry& entry : entries_) all.push_back(entry.spec.id);
  for (const MultiAgentEntry& entry : multi_agent_entries_) all.push_back(entry.spec.id);
  std::ranges::sort(all);
  throw ConfigError(unknown(id, all));
}

// Checks in the order in which trouble would be worst: the file, the entry point, the record that all versions can
// read, and only then C++ code of the plugin.
void EnvRegistry::load_plugin(const std::filesystem::path& path) {
  check_file(path);
  const PluginInfo& info = ask(path);
  check_info(path, info);
  PluginEntries its = entries_of(path, info);
  const std::string origin = concat("plugin '", path.string(), "'");
  EnvRegistry larger = *this;  // so that a fault in the second environment does not leave the first
  const auto add = [&](auto& entries) {
    for (auto& entry : entries) {
      entry.origin = origin;
      larger.add(std::move(entry));
    }
  };
  add(its.of_one);
  add(its.of_several);
  *this = std::move(larger);
}

}  // namespace tandem::rl
