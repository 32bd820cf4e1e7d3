#include "tandem/sync/variables/variable_registry.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <map>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<VariableService>> entries TANDEM_GUARDED_BY(mutex);
  std::int64_t entered TANDEM_GUARDED_BY(mutex) = 0;
};

Registry& registry() {
  static Registry the_one;
  return the_one;
}

std::string make_random_text() {
  std::array<std::uint64_t, 2> random{};
  TANDEM_CHECK(::getrandom(random.data(), sizeof(random), 0) == sizeof(random), "getrandom");
  return concat(random[0], "-", random[1]);
}

}  // namespace

// Processes of different hosts may have the same number, and one that was forked the same random text.
std::string process_key() {
  static const std::string random = make_random_text();
  return concat(::getpid(), "-", random);
}

std::string enter_variables(const std::shared_ptr<VariableService>& variables) {
  const MutexLock lock(registry().mutex);
  auto& entries = registry().entries;
  std::erase_if(entries, [](const auto& entry) { return entry.second.expired(); });
  const std::string key = concat(process_key(), "-", registry().entered++);
  entries[key] = variables;
  return key;
}

std::shared_ptr<VariableService> find_variables(const std::string& key) {
  const MutexLock lock(registry().mutex);
  const auto found = registry().entries.find(key);
  std::shared_ptr<VariableService> variables;
  if (found != registry().entries.end()) variables = found->second.lock();
  TANDEM_CHECK(variables != nullptr, "no shared variables '", key, "' in this process");
  return variables;
}

}  // namespace tandem::sync
