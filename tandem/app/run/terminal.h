// app/run/terminal.h: whether what is printed may move the cursor.
//
// Threads: while no other thread changes the environment.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace tandem::app {

/// Whether `descriptor` is a terminal that understands escape codes, as TERM says: "dumb" does not, and one without a
/// name may not. Tandem prints no colours, so NO_COLOR changes nothing.
[[nodiscard]] inline bool can_redraw(int descriptor) {
  const char* const term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  const std::string_view name = term == nullptr ? "" : term;
  return ::isatty(descriptor) == 1 && !name.empty() && name != "dumb";
}

}  // namespace tandem::app
