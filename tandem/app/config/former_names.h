// app/config/former_names.h: what options were called by builds whose runs can still be resumed.
//
// Threads: free functions.
#pragma once
#include <string_view>

namespace tandem::app {

/// What the option of that dotted key is called now: `key` itself unless it had another name.
[[nodiscard]] std::string_view current_name(std::string_view key);

}  // namespace tandem::app
