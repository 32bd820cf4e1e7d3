// base/check.h: TANDEM_CHECK(condition, values...) guards an invariant of Tandem's own code.
//
// When the condition is false, TANDEM_CHECK throws InvariantError with the condition, the place, the values and the
// call stack. The check is made in every build type. The values are put together only when the condition is false. A
// fault that a user or the world can cause gets a ConfigError or a RunError instead.
//
// Threads: all.
#pragma once
#include <string>

#include "tandem/base/text.h"

namespace tandem {

/// Throws the InvariantError of a failed TANDEM_CHECK.
[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

}  // namespace tandem

#define TANDEM_CHECK(condition, ...)                                                       \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::tandem::fail_check(#condition, __FILE__, __LINE__, ::tandem::concat(__VA_ARGS__)); \
  } while (false)
