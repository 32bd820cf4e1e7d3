// app/config/nearest_name.h: what the user may have meant by a name that does not exist.
//
// Threads: free functions. The cost is the text's length times that of all names; text over 80 characters is not
// compared.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/edit_distance.h"

namespace tandem::app {

/// The name nearest to `text`, or nothing when none is near enough to be a slip of the pen. Of dotted names the last
/// part counts too: "epochs" finds "ppo.epochs". The first of equals wins.
/// A name is near when at most a third of the text's characters, but at least one, must change.
[[nodiscard]] inline std::optional<std::string> nearest_name(std::string_view text,
                                                             const std::vector<std::string>& names) {
  constexpr std::size_t kLongestCompared = 80;  // longer text is no slip of the pen, and the cost is quadratic
  const auto last_part = [](std::string_view name) { return name.substr(name.rfind('.') + 1); };  // npos + 1 is 0
  const auto allowed = [](std::string_view slip) { return std::max<int>(1, static_cast<int>(slip.size()) / 3); };
  if (text.empty() || text.size() > kLongestCompared) return std::nullopt;
  std::optional<std::string> nearest;
  // Only a smaller distance replaces the best, so the first of equals stays.
  int best = allowed(text) + 1;
  for (const std::string& name : names) {
    int distance = edit_distance(text, name);
    // To the last part alone where `text` has no section or one that does not exist. One more: the section is wrong.
    const int of_last = edit_distance(last_part(text), last_part(name)) + 1;
    if (of_last <= allowed(last_part(text))) distance = std::min(distance, of_last);
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace tandem::app
