#include "tandem/app/config/nearest_name.h"

#include <algorithm>

#include "tandem/base/edit_distance.h"

namespace tandem::app {
namespace {

constexpr std::size_t kLongestCompared = 80;  // longer text is no slip of the pen, and the cost is quadratic

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

// Edits that a slip may make: one in three characters.
int allowed_distance(std::string_view text) { return std::max<int>(1, static_cast<int>(text.size()) / 3); }

// Distance from `text` to `name`; to its last part alone where `text` has no section or a section that does not exist.
int distance_to(std::string_view text, std::string_view name) {
  const int whole = edit_distance(text, name);
  const std::string_view last = last_part(text);
  // One more: the section is wrong as well.
  const int of_last = edit_distance(last, last_part(name)) + 1;
  return of_last <= allowed_distance(last) ? std::min(whole, of_last) : whole;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view text, const std::vector<std::string>& names) {
  if (text.empty() || text.size() > kLongestCompared) return std::nullopt;
  std::optional<std::string> nearest;
  // Only a smaller distance replaces the best, so the first of equals stays.
  int best = allowed_distance(text) + 1;
  for (const std::string& name : names) {
    const int distance = distance_to(text, name);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace tandem::app
