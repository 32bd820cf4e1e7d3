// app/config/nearest_name.h: what the user may have meant by a name that does not exist.
//
// Threads: free functions. The cost is the text's length times that of all names; text over 80 characters is not
// compared.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::app {

/// The name nearest to `text`, or nothing when none is near enough to be a slip of the pen. Of dotted names the last
/// part counts too: "epochs" finds "ppo.epochs". The first of equals wins.
/// A name is near when at most a third of the text's characters, but at least one, must change.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view text, const std::vector<std::string>& names);

}  // namespace tandem::app
