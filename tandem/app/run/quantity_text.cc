#include "tandem/app/run/quantity_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "tandem/base/text.h"

namespace tandem::app {
std::string count_text(double count) {
  static constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  // 999.5 and more would be rounded to 1000, which is 1 of the next unit.
  while (std::abs(count) >= 999.5 && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  const double size = std::abs(count);
  // The bounds lie half a unit of the last digit below 100 and 10, where the rounded text would get a fourth digit.
  return fixed(count, unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + kUnits[unit];
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 99 * 86'400.0;
  // The negated comparison is true for NaN, too.
  if (!(seconds >= 0) || seconds > kLongest) return "?";
  const auto whole = static_cast<int>(std::llround(seconds));
  std::array<char, 32> text{};
  if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%d:%02d", whole / 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text.data();
}

std::string value_text(double value) {
  if (std::isnan(value)) return "-";
  const double size = std::abs(value);
  if (size == 0 || (size >= 1e-3 && size < 1e6)) return fixed(value, size >= 10 ? 1 : size >= 1 ? 2 : 4);
  return formatted(value, std::chars_format::scientific, 2);
}

std::string bound_text(double bound) {
  const double size = std::abs(bound);
  if (size >= 1000 && size < 1e7) return fixed(bound, 0);
  return formatted(bound, std::chars_format::general, 4);
}

std::string counted(std::int64_t count, const std::string& thing) {
  return concat(count, " ", thing, count == 1 ? "" : "s");
}

}  // namespace tandem::app
