#include "tandem/app/plot/axis_ticks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tandem/base/check.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// How many multiples of `step` lie within the range; the slack takes in those that rounding pushes over the edge.
struct Multiples {
  double first, last;
  [[nodiscard]] double count() const { return last - first + 1; }
};
Multiples multiples(double low, double high, double step) {
  constexpr double kSlack = 1e-9;
  return {std::ceil(low / step - kSlack), std::floor(high / step + kSlack)};
}

// Starts with the power of ten at or below the range's share for a tick, and takes the first factor that gives few
// enough multiples.
double round_step(double low, double high, int most) {
  const double power = std::pow(10, std::floor(std::log10((high - low) / most)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0}) {
    if (multiples(low, high, factor * power).count() <= most) return factor * power;
  }
  return 100 * power;
}

struct Unit {
  double size;
  const char* name;
};

// Up to 4999 a number is easier to read in full; beyond, labels have at most three digits before the point.
Unit unit_of(double largest) {
  if (largest < 5000) return {1, ""};
  return largest < 1e6 ? Unit{1e3, "k"} : largest < 1e9 ? Unit{1e6, "M"} : Unit{1e9, "G"};
}

// Digits after the point that tell `step` from its neighbours.
int decimals_of(double step) {
  for (int decimals = 0; decimals < 12; ++decimals) {
    const double scaled = step * std::pow(10, decimals);
    if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 12;
}

}  // namespace

AxisTicks axis_ticks(double low, double high, int most) {
  TANDEM_CHECK(low < high && std::isfinite(low) && std::isfinite(high) && most >= 2, low, " .. ", high, " in ", most);
  const double step = round_step(low, high, most);
  const Multiples range = multiples(low, high, step);
  const Unit unit = unit_of(std::max(std::abs(low), std::abs(high)));
  const int decimals = decimals_of(step / unit.size);
  AxisTicks ticks;
  // Counts in integers, so that rounding cannot lose the last tick.
  const auto count = static_cast<int>(range.last - range.first) + 1;
  for (int tick = 0; tick < count; ++tick) {
    const double i = range.first + tick;
    const double value = i == 0 ? 0 : i * step;  // no "-0"
    // The slack of multiples() may have let a tick lie beyond the edge by a rounding error.
    ticks.values.push_back(std::clamp(value, low, high));
    ticks.labels.push_back(value == 0 ? "0" : fixed(value / unit.size, decimals) + unit.name);
  }
  return ticks;
}

AxisTicks power_ticks(double low, double high, int most) {
  TANDEM_CHECK(low < high && low >= 0 && high < 62 && most >= 2, low, " .. ", high, " in ", most);
  const int first = static_cast<int>(std::ceil(low)), last = static_cast<int>(std::floor(high));
  const int step = (last - first) / most + 1;
  AxisTicks ticks;
  for (int exponent = first; exponent <= last; exponent += step) {
    ticks.values.push_back(exponent);
    ticks.labels.push_back(std::to_string(std::int64_t{1} << exponent));
  }
  return ticks;
}

AxisRange axis_range(double low, double high) {
  constexpr double kMargin = 0.06;
  if (low == high) {
    const double half = low == 0 ? 1 : std::abs(low) * 0.1;
    return {low - half, high + half};
  }
  const double margin = (high - low) * kMargin;
  const bool starts_at_zero = low >= 0 && low < 0.35 * high;
  const bool ends_at_zero = high <= 0 && high > 0.35 * low;
  return {starts_at_zero ? 0 : low - margin, ends_at_zero ? 0 : high + margin};
}

}  // namespace tandem::app
