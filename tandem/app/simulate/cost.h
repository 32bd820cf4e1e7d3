// app/simulate/cost.h: how long a piece of work takes, drawn from a distribution.
//
// Plain values.
//
// Text and value convert into each other without a loss, so that options can be printed and read again.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tandem/base/philox.h"

namespace tandem::app {

/// Milliseconds. Written "10", always the same; or "pareto:1:1.5", of a Pareto distribution with mean 1 and shape 1.5.
struct Cost {
  double mean_ms = 0;
  std::optional<double> shape = {};  // above 1: the lower, the heavier the tail

  /// Takes a random number only when there is a shape.
  [[nodiscard]] double draw_ms(Philox& random) const;
  [[nodiscard]] std::string text() const;

  bool operator==(const Cost&) const = default;
};

/// Nothing when the text is none. Means lie between 0 and 60,000 ms, and a shape is above 1: below it the mean would be
/// infinite.
[[nodiscard]] std::optional<Cost> read_cost(std::string_view text);

}  // namespace tandem::app
