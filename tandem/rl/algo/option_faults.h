// rl/algo/option_faults.h: collects what is wrong with the numbers of a run, so that all of it is told at once.
//
//   OptionFaults faults;
//   faults.positive("workers", options.workers);
//   if (faults.any()) throw ConfigError(faults.take());
//
// Numbers that are not finite are faults everywhere. Threads: single-thread.
#pragma once
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/text.h"

namespace tandem::rl {

class OptionFaults {
 public:
  void require(bool holds, std::string fault) {
    if (!holds) faults_.push_back(std::move(fault));
  }
  /// Both ends are allowed.
  void in_range(const char* key, double value, double low, double high) {
    require(value >= low && value <= high, concat(key, " is ", value, "; it must lie within ", low, " .. ", high));
  }
  /// Nothing passes.
  void positive(const char* key, const std::optional<double>& value) {
    if (value)
      require(*value > 0 && std::isfinite(*value), concat(key, " is ", *value, "; it must be a positive number"));
  }
  void not_negative(const char* key, double value) {
    require(value >= 0 && std::isfinite(value), concat(key, " is ", value, "; it must not be negative"));
  }
  void at_least(const char* key, std::int64_t value, std::int64_t least) {
    require(value >= least, concat(key, " is ", value, "; it must be at least ", least));
  }

  [[nodiscard]] bool any() const { return !faults_.empty(); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(faults_); }

 private:
  std::vector<std::string> faults_;
};

}  // namespace tandem::rl
