// base/text.h: puts values together into one string, for messages.
//
// Threads: all. It is not made for hot loops: each call makes a stream.
#pragma once
#include <sstream>
#include <string>

namespace tandem {

/// The values written one after the other with `operator<<`: concat("rank ", 3, " of ", 8). Numbers are written as a
/// stream writes them by default, so a double has six significant digits.
template <typename... Values>
[[nodiscard]] std::string concat(const Values&... values) {
  std::ostringstream out;
  (void)(out << ... << values);
  return std::move(out).str();
}

}  // namespace tandem
