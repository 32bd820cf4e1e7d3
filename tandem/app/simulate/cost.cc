#include "tandem/app/simulate/cost.h"

#include <cmath>

#include "tandem/app/config/value_format.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::string_view kPareto = "pareto:";
constexpr double kLongest = 60'000;  // ms

bool is_duration(const std::optional<double>& ms) { return ms && *ms >= 0 && *ms <= kLongest; }

}  // namespace

double Cost::draw_ms(Philox& random) const {
  if (!shape) return mean_ms;
  // Inverts the distribution function; the least value is chosen so that the mean comes out as asked.
  const double least = mean_ms * (*shape - 1) / *shape;
  return least * std::pow(1 - random.uniform_double(), -1 / *shape);
}

std::string Cost::text() const {
  return shape ? concat(kPareto, write_number(mean_ms), ":", write_number(*shape)) : write_number(mean_ms);
}

std::optional<Cost> read_cost(std::string_view text) {
  if (!text.starts_with(kPareto)) {
    const std::optional<double> ms = read_number(text);
    return is_duration(ms) ? std::optional(Cost{.mean_ms = *ms}) : std::nullopt;
  }
  text.remove_prefix(kPareto.size());
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<double> ms = read_number(text.substr(0, colon)), shape = read_number(text.substr(colon + 1));
  if (!is_duration(ms) || !shape || *shape <= 1) return std::nullopt;
  return Cost{.mean_ms = *ms, .shape = shape};
}

}  // namespace tandem::app
