// app/config/nearest_name.h: what the user may have meant by a name that does not exist.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::app {

/// The name nearest to `text`, or nothing when none is near enough to be a slip of the pen. Of dotted names the last
/// part counts too: "epochs" finds "ppo.epochs". The first of equals wins.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view text, const std::vector<std::string>& names);

}  // namespace tandem::app
