#include "tandem/metrics/sink.h"

#include <algorithm>
#include <limits>

#include "tandem/base/check.h"

namespace tandem {

// Records have a few dozen fields, so names are compared one by one.
Record& Record::add(std::string name, MetricValue value) {
  TANDEM_CHECK(find(name) == nullptr, "the record already has '", name, "'");
  fields_.emplace_back(std::move(name), std::move(value));
  return *this;
}

const MetricValue* Record::find(std::string_view name) const {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const auto& field) { return field.first == name; });
  return found == fields_.end() ? nullptr : &found->second;
}

double Record::number(std::string_view name) const {
  const MetricValue* value = find(name);
  if (value != nullptr) {
    if (const auto* real = std::get_if<double>(value)) return *real;
    if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tandem
