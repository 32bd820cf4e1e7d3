// app/simulate/cost.h: how long a piece of work takes, drawn from a distribution.
//
// Plain values.
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

  [[nodiscard]] double draw_ms(Philox& random) const;
  [[nodiscard]] std::string text() const;

  bool operator==(const Cost&) const = default;
};

/// Nothing when the text is none.
[[nodiscard]] std::optional<Cost> read_cost(std::string_view text);

}  // namespace tandem::app
