// app/config/option_rules.h: what one option asks of another.
//
// Threads: single-thread.
//
// A rule compares options alone; an OptionCheck also needs the environment, devices or ranks. Faults are collected, so
// that a user mends all of them at once.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/train_options.h"

namespace tandem::app {

/// Throws ConfigError when the option `key` cannot be, with the others as they are: an environment of no such name, a
/// head that does not fit its actions.
struct OptionCheck {
  std::string key;
  std::function<void(const TrainOptions&)> run;
};

/// Options that are being checked, and the faults that were found.
/// Passed through the algorithm's and the program's rules in one sweep, before any OptionCheck runs.
class Rules {
 public:
  /// `table` is bound to `options`; both outlive the rules. `replicas`: how many the devices make.
  Rules(const TrainOptions& options, const OptionTable& table, int replicas)
      : options_(options), table_(table), replicas_(replicas) {}

  [[nodiscard]] const TrainOptions& options() const { return options_; }
  /// For where a value came from, and whether it has an effect.
  [[nodiscard]] const OptionTable& table() const { return table_; }
  [[nodiscard]] int replicas() const { return replicas_; }
  /// 1 while they are `auto`.
  [[nodiscard]] int shards() const { return static_cast<int>(options_.shards.value_or(1)); }
  /// The setting of `key` that is in force is at fault.
  void fault(std::string_view key, const std::string& problem) { faults_.push_back(table_.fault(key, problem)); }
  /// Adds each of `faults`. A key that is no option of all algorithms is one of `section`.
  template <typename Faults>
  void count_faults(std::string_view section, const Faults& faults) {
    for (const auto& found : faults) {
      const bool is_common = table_.find(found.key) != nullptr;
      fault(is_common ? found.key : std::string(section) + "." + found.key, found.problem);
    }
  }
  /// Whether one of these keys has a value that was not asked for, so that a rule about it would mislead.
  [[nodiscard]] bool any_faulty(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  const TrainOptions& options_;
  const OptionTable& table_;
  const int replicas_;
  std::vector<std::string> faults_;
};

/// Faults of options that are fine one by one but not together, by the algorithm's rules and the program's.
/// Empty when all options go together. Stops at no fault, but rules about faulty keys are skipped.
[[nodiscard]] std::vector<std::string> rule_faults(const TrainOptions& options, const OptionTable& table, int replicas);

}  // namespace tandem::app
