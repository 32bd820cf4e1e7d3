// base/check.h: TANDEM_CHECK(condition, values...) guards an invariant of Tandem's own code, and
// TANDEM_EXPECTS(condition, values...) what a public function expects of the program that calls it.
//
// When the condition is false, TANDEM_CHECK throws InvariantError with the condition, the place, the values and the
// call stack; TANDEM_EXPECTS throws ConfigError with the values alone, which say what to write instead. Both are made
// in every build type. The values are put together only when the condition is false.
//
// Threads: all.
#pragma once
#include <string>

#include "tandem/base/text.h"

namespace tandem {

/// Throws the InvariantError of a failed TANDEM_CHECK.
[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);
/// Throws the ConfigError of a failed TANDEM_EXPECTS.
[[noreturn]] void fail_expectation(const std::string& message);

}  // namespace tandem

#define TANDEM_CHECK(condition, ...)                                                       \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::tandem::fail_check(#condition, __FILE__, __LINE__, ::tandem::concat(__VA_ARGS__)); \
  } while (false)

#define TANDEM_EXPECTS(condition, ...)                           \
  do {                                                           \
    if (!(condition)) [[unlikely]]                               \
      ::tandem::fail_expectation(::tandem::concat(__VA_ARGS__)); \
  } while (false)
