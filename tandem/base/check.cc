#include "tandem/base/check.h"

#include <execinfo.h>

#include <array>
#include <cstdlib>

#include "tandem/base/error.h"

namespace tandem {
namespace {

// Returns the callers of fail_check(), one a line, with the names that the dynamic linker knows.
std::string call_stack() {
  std::array<void*, 32> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  char** names = backtrace_symbols(frames.data(), count);
  std::string text;
  // Frames 0 and 1 are this function and fail_check().
  for (int i = 2; names != nullptr && i < count; ++i) text += concat("\n    ", names[i]);
  std::free(names);
  return text;
}

}  // namespace

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InvariantError(concat("defect in tandem: ", file, ":", line, ": '", condition, "' does not hold",
                              message.empty() ? "" : ": ", message, call_stack()));
}

}  // namespace tandem
