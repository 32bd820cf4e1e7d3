// comm/launcher_variables.h: reads environment variables and gathers what is wrong with them.
//
// Threads: single-thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/comm/store/launcher_environment.h"

namespace tandem::comm {

class LauncherVariables {
 public:
  explicit LauncherVariables(const Lookup& lookup) : lookup_(lookup) {}

  /// Nothing when it is not set, or empty.
  [[nodiscard]] std::optional<std::string> text(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return text(name).has_value(); }
  /// The first of the variables that is set, else the last.
  [[nodiscard]] std::string first_set(const std::vector<std::string>& names) const;

  /// A whole number in [least, most]; another value is a fault, and nothing is returned.
  std::optional<int> number(const std::string& name, int least, int most);
  /// The same, which is also a fault when it is not set; `meaning` says what it is needed for.
  std::optional<int> required_number(const std::string& name, int least, int most, const std::string& meaning);

  void add_fault(const std::string& fault) { faults_.push_back(fault); }
  /// Throws ConfigError when there were faults.
  void finish() const;

 private:
  const Lookup& lookup_;
  std::vector<std::string> faults_;
};

}  // namespace tandem::comm
