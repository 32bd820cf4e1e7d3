#include "tandem/app/run/mean_interval.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "tandem/base/check.h"

namespace tandem::app {
namespace {

// Quantiles 0.975 of Student's t for 1, 2, ... degrees of freedom; the normal distribution's beyond.
double t_quantile(std::size_t degrees) {
  static constexpr std::array kQuantiles{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                         2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  return degrees <= kQuantiles.size() ? kQuantiles[degrees - 1] : 1.96;
}

}  // namespace

MeanInterval mean_interval(std::span<const double> values) {
  TANDEM_CHECK(values.size() > 1, "one value has no interval");
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += std::pow(value - mean, 2);
  const double deviation = std::sqrt(squares / (count - 1));
  return {mean, deviation, t_quantile(values.size() - 1) * deviation / std::sqrt(count)};
}

}  // namespace tandem::app
