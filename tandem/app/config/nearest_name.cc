#include "tandem/app/config/nearest_name.h"

#include <algorithm>

#include "tandem/base/edit_distance.h"

namespace tandem::app {
namespace {

constexpr std::size_t kLongestCompared = 80;  // longer text is no slip of the pen, and the cost is quadratic

std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// Edits that a slip may make: one in three characters.
int allowed_distance(std::string_view text) { return std::max<int>(1, static_cast<int>(text.size()) / 3); }

// edit_distance(), or `limit` where it cannot be less, since the lengths differ by as much.
int distance_below(int limit, std::string_view text, std::string_view name) {
  const std::size_t longer = std::max(text.size(), name.size()), shorter = std::min(text.size(), name.size());
  return longer - shorter >= static_cast<std::size_t>(limit) ? limit : std::min(limit, edit_distance(text, name));
}

// Distance from `text` to `name`; to its last part alone where `text` has no section or a section that does not exist.
// At most `limit`.
int distance_to(std::string_view text, std::string_view name, int limit) {
  const int whole = distance_below(limit, text, name);
  const std::string_view last = last_part(text);
  // One more: the section is wrong as well.
  const int of_last = distance_below(allowed_distance(last), last, last_part(name)) + 1;
  return of_last <= allowed_distance(last) ? std::min(whole, of_last) : whole;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view text, const std::vector<std::string>& names) {
  if (text.empty() || text.size() > kLongestCompared) return std::nullopt;
  std::optional<std::string> nearest;
  // Only a smaller distance replaces the best, so the first of equals stays.
  int best = allowed_distance(text) + 1;
  for (const std::string& name : names) {
    const int distance = distance_to(text, name, best);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace tandem::app
