#include "tandem/model/orthonormal_rows.h"

#include <array>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem::model {
namespace {

// Eight partial sums, always the same elements in each, so compilers can use vectors without changing the result.
double dot(std::span<const double> a, std::span<const double> b) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t lane = 0; i < a.size(); ++i, ++lane) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void subtract(std::span<double> from, double factor, std::span<const double> what) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= factor * what[i];
}

}  // namespace

void orthonormalise_rows(std::span<double> rows, std::size_t count, std::size_t length) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = rows.subspan(i * length, length);
    double before = 0, after = 0;
    do {
      before = std::sqrt(dot(own, own));
      for (std::size_t j = 0; j < i; ++j) {
        const auto other = rows.subspan(j * length, length);
        subtract(own, dot(own, other), other);
      }
      after = std::sqrt(dot(own, own));
      TANDEM_CHECK(after > 0, "row ", i, " of ", count, " depends on those before it");
    } while (after < 0.5 * before);
    for (double& value : own) value /= after;
  }
}

}  // namespace tandem::model
