// app/config/foreign_names.h: keys that other libraries have for what Tandem calls otherwise, for messages.
//
// Threads: free functions.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tandem::app {

/// What to set instead of `key`, in a clause ("rollout_steps, ..."); nothing for keys of no library that is known. The
/// last part of a dotted key counts.
[[nodiscard]] std::optional<std::string> instead_of_foreign(std::string_view key);

}  // namespace tandem::app
