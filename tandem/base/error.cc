#include "tandem/base/error.h"

#include "tandem/base/text.h"

namespace tandem {
namespace {

// Returns a single fault as it is, and several as a list with one line each.
std::string list(const std::vector<std::string>& faults) {
  if (faults.size() == 1) return faults.front();
  std::string text = concat(faults.size(), " faults in the configuration:");
  for (const std::string& fault : faults) text += concat("\n  - ", fault);
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<std::string> faults) : Error(list(faults)), faults_(std::move(faults)) {}

}  // namespace tandem
