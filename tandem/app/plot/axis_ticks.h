// app/plot/axis_ticks.h: round numbers along an axis, and how they are written.
//
// Threads: free functions on values.
//
// Ticks never leave the range that they were asked for; a range without a round number in it gives fewer of them.
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

/// Ticks at powers of two, written out, whose values are the exponents: "1", "4", "16". As above. Needs 0 <= low < high
/// < 62, as the labels are whole numbers of 64 bits. Throws InvariantError otherwise.
[[nodiscard]] AxisTicks power_ticks(double low, double high, int most);

/// The range to show for data from `low` to `high`: a little wider, from zero where that is near, and never empty. Zero
/// counts as near when it lies within about a third of the largest value.
struct AxisRange {
  double low = 0, high = 1;
};
[[nodiscard]] AxisRange axis_range(double low, double high);

}  // namespace tandem::app
