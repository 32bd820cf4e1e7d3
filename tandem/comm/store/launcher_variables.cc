#include "tandem/comm/store/launcher_variables.h"

#include <charconv>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::comm {

std::optional<std::string> LauncherVariables::text(const std::string& name) const {
  std::optional<std::string> value = lookup_(name);
  if (value && value->empty()) value.reset();
  return value;
}

std::string LauncherVariables::first_set(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (has(name)) return name;
  }
  return names.back();
}

std::optional<int> LauncherVariables::number(const std::string& name, int least, int most) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  int number = 0;
  const char* const end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error == std::errc() && stop == end && number >= least && number <= most) return number;
  add_fault(concat(name, " = ", *value, ": expected an integer from ", least, " to ", most));
  return std::nullopt;
}

std::optional<int> LauncherVariables::required_number(const std::string& name, int least, int most,
                                                      const std::string& meaning) {
  if (!has(name)) add_fault(concat(name, " is not set: ", meaning));
  return number(name, least, most);
}

void LauncherVariables::finish() const {
  if (!faults_.empty()) throw ConfigError(faults_);
}

}  // namespace tandem::comm
