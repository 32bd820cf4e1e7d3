// app/run/written_number.h: numbers of the files that a run writes, read back.
//
// Rates and means are null in these files before there is anything to divide by.
#pragma once
#include <limits>
#include <optional>
#include <string_view>

#include "tandem/base/json_reader.h"

namespace tandem::app {

/// The number of `key`; nothing where there is null. Throws as JsonValue::at() and as_double() do.
[[nodiscard]] inline std::optional<double> optional_number(const JsonValue& object, std::string_view key) {
  const JsonValue& value = object.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.as_double());
}

/// Reads a number; NaN where there is null: JSON has no NaN, and JsonWriter writes it as null.
[[nodiscard]] inline double number(const JsonValue& object, std::string_view key) {
  return optional_number(object, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace tandem::app
