// app/run/quantity_text.h: numbers as people read them.
//
// Threads: free functions on values.
//
// The texts are for eyes only. Files that programs read get numbers in full (JsonWriter), so nothing may parse these.
#pragma once
#include <cstdint>
#include <string>

namespace tandem::app {

/// "950", "12.3k", "186k", "1.25M", "3.2G": three significant digits.
[[nodiscard]] std::string count_text(double count);

/// "0:07", "12:45", "1:02:03"; "?" when not finite or beyond 99 days.
[[nodiscard]] std::string duration_text(double seconds);

/// A return or a loss: "431.2", "-0.0312", "1.25e+06"; "-" when it is NaN.
[[nodiscard]] std::string value_text(double value);

/// A number that somebody chose, as a threshold: "475", "0.9", "-123.4", "20000". The shortest text with four
/// significant digits and all digits before the point.
[[nodiscard]] std::string bound_text(double bound);

/// "1 shard", "2 shards".
[[nodiscard]] std::string counted(std::int64_t count, const std::string& thing);

}  // namespace tandem::app
