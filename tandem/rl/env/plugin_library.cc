#include <array>
#include <cstring>
#include <fstream>

#include "tandem/base/error.h"
#include "tandem/base/shared_library.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/plugin.h"

namespace tandem::rl {
namespace {

// Checks in the order in which trouble would be worst: the file, the entry point, the record that all versions can
// read, and only then C++ code of the plugin.
class Loader {
 public:
  explicit Loader(const std::filesystem::path& path) : path_(path) {}

  [[nodiscard]] PluginEntries load() const {
    check_file();
    SharedLibrary library = open();
    const PluginInfo& info = ask(library);
    check_info(info);
    return entries(info);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw ConfigError(concat("plugin '", path_.string(), "' ", reason));
  }

  // Finds the usual mistakes first, since dlopen's words for them are about the ELF format.
  void check_file() const {
    std::error_code error;
    if (!std::filesystem::exists(path_, error)) {
      fail(concat("does not exist (looked at ", std::filesystem::absolute(path_, error).string(), ")"));
    }
    if (std::filesystem::is_directory(path_, error)) fail("is a folder; name the shared object in it");
    std::ifstream file(path_, std::ios::binary);
    std::array<char, 4> head{};
    if (!file.read(head.data(), head.size())) fail("cannot be read as a shared object: it is empty or not readable");
    if (std::memcmp(head.data(),
                    "\x7f"
                    "ELF",
                    head.size()) != 0) {
      fail("is not a shared object; build one with CMake's add_library(mine MODULE mine.cc)");
    }
  }

  [[nodiscard]] SharedLibrary open() const {
    // The path is made absolute, because a name without a slash would be looked for among the system's libraries. The
    // library is never closed, as env_registry.h says.
    SharedLibrary library(std::filesystem::absolute(path_).string());
    if (!library.why_not().empty()) fail(concat("cannot be loaded: ", library.why_not()));
    return library;
  }

  // Calls the plugin's C function and returns its record.
  [[nodiscard]] const PluginInfo& ask(SharedLibrary& library) const {
    using EntryPoint = const PluginInfo* (*)();
    const auto entry_point = reinterpret_cast<EntryPoint>(library.find("tandem_env_plugin"));
    if (entry_point == nullptr) {
      fail("has no environments: the function 'tandem_env_plugin' is missing; add TANDEM_ENV_PLUGIN(YourEnv) to it");
    }
    const PluginInfo* info = entry_point();
    if (info == nullptr) fail("has no environments: 'tandem_env_plugin' returned null");
    return *info;
  }

  // Nothing of the record is used before its length and interface are right; then the C++ library, then the layouts.
  void check_info(const PluginInfo& info) const {
    const auto rebuild = "; rebuild the plugin against the headers of this tandem and with its compiler";
    if (info.info_bytes < sizeof(PluginInfo) || info.interface != kEnvInterface) {
      fail(concat("was built for environment interface ", info.interface, " and this tandem has ", kEnvInterface,
                  rebuild));
    }
    if (std::strcmp(info.cxx_library, kCxxLibrary) != 0) {
      fail(concat("was built with ", info.cxx_library, " and this tandem with ", kCxxLibrary, rebuild));
    }
    if (info.spec_bytes != sizeof(Spec) || info.entry_bytes != sizeof(EnvEntry) ||
        info.multi_agent_spec_bytes != sizeof(MultiAgentSpec) ||
        info.multi_agent_entry_bytes != sizeof(MultiAgentEntry)) {
      fail(concat("was built with other layouts (Spec ", info.spec_bytes, " bytes, here ", sizeof(Spec), "; EnvEntry ",
                  info.entry_bytes, ", here ", sizeof(EnvEntry), "; MultiAgentSpec ", info.multi_agent_spec_bytes,
                  ", here ", sizeof(MultiAgentSpec), "; MultiAgentEntry ", info.multi_agent_entry_bytes, ", here ",
                  sizeof(MultiAgentEntry), ")", rebuild));
    }
  }

  // Runs the plugin's C++ code, which may throw anything.
  [[nodiscard]] PluginEntries entries(const PluginInfo& info) const {
    PluginEntries entries;
    try {
      info.add_entries(entries);
    } catch (const std::exception& error) {
      fail(concat("threw while registering its environments: ", error.what()));
    } catch (...) {
      fail("threw while registering its environments, and not a std::exception");
    }
    if (entries.of_one.empty() && entries.of_several.empty()) fail("registered no environment");
    const std::string origin = concat("plugin '", path_.string(), "'");
    for (EnvEntry& entry : entries.of_one) entry.origin = origin;
    for (MultiAgentEntry& entry : entries.of_several) entry.origin = origin;
    return entries;
  }

  const std::filesystem::path path_;
};

}  // namespace

void EnvRegistry::load_plugin(const std::filesystem::path& path) {
  EnvRegistry larger = *this;  // so that a fault in the second environment does not leave the first
  PluginEntries its = Loader(path).load();
  for (EnvEntry& entry : its.of_one) larger.add(std::move(entry));
  for (MultiAgentEntry& entry : its.of_several) larger.add(std::move(entry));
  *this = std::move(larger);
}

}  // namespace tandem::rl
