// base/version.h: the version of this library. CMake reads the number from the macro's line.
#pragma once

#define TANDEM_VERSION "0.1.0"

namespace tandem {
inline constexpr const char* kVersion = TANDEM_VERSION;
}
