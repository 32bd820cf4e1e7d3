// app/plot/axis_ticks.h: round numbers along an axis, and how they are written.
//
// Threads: free functions on values.
#pragma once
#include <string>
#include <vector>

namespace tandem::app {

struct AxisTicks {
  std::vector<double> values = {};       // rising, each within the range
  std::vector<std::string> labels = {};  // one a value, all in one unit: "0", "50k", "100k"
};

/// Ticks at multiples of 1, 2, 2.5 or 5 times a power of ten: as many as there can be without being more than `most`
/// (at least 2). `low` < `high`, both finite.
[[nodiscard]] AxisTicks axis_ticks(double low, double high, int most);

/// Ticks at powers of two, written out, whose values are the exponents: "1", "4", "16". As above.
[[nodiscard]] AxisTicks power_ticks(double low, double high, int most);

/// The range to show for data from `low` to `high`: a little wider, from zero where that is near, and never empty.
struct AxisRange {
  double low = 0, high = 1;
};
[[nodiscard]] AxisRange axis_range(double low, double high);

}  // namespace tandem::app
