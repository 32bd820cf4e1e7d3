// app/config/other_names.h: other names of options: those of builds whose runs can still be resumed, and those of other
// libraries.
//
// Threads: free functions.
//
// A former name is read silently, so an old config.yaml can be resumed; a foreign key is a fault whose message names
// ours.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tandem::app {

/// The name that the option of that dotted key has now: `key` itself unless the option had another name.
[[nodiscard]] std::string_view current_name(std::string_view key);

/// Says in a clause which option stands for `key` ("rollout_steps, ..."); nothing for keys of no library that is known.
/// The last part of a dotted key counts.
[[nodiscard]] std::optional<std::string> instead_of_foreign(std::string_view key);

}  // namespace tandem::app
