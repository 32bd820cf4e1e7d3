#include "tandem/comm/store/store_value.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "tandem/base/error.h"

namespace tandem::comm {
namespace {

std::vector<std::string_view> split_value(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

void refuse_value(const std::string& key, std::string_view text, const std::string& what) {
  constexpr std::size_t kShown = 100;
  const std::string shown(text.substr(0, kShown));
  throw RunError(concat("the value of '", key, "' in the run's store is '", printable(shown),
                        text.size() > kShown ? concat("...' of ", text.size(), " bytes") : "'", ", and not ", what,
                        "; likely a rank is of another version of tandem, or something else wrote there"));
}

std::int64_t number_in(const std::string& key, std::string_view text, std::int64_t least, std::int64_t most) {
  const auto number = parse_number<std::int64_t>(text);
  if (number && *number >= least && *number <= most) return *number;
  refuse_value(key, text, concat("a number from ", least, " to ", most));
}

std::vector<std::string> parts_in(const std::string& key, std::string_view text, char separator, std::size_t count) {
  // Counted first, so that a value full of separators takes no memory.
  const auto found = static_cast<std::size_t>(std::ranges::count(text, separator)) + 1;
  if (found != count) refuse_value(key, text, concat(count, separator == '\n' ? " lines" : " words"));
  const std::vector<std::string_view> parts = split_value(text, separator);
  return {parts.begin(), parts.end()};
}

std::vector<Life> lives_in(const std::string& key, std::string_view text) {
  constexpr int kLargest = std::numeric_limits<int>::max();
  const std::string expected = concat("a list of 1 to ", kMostLives, " processes, as in '0.0 1.0'");
  if (std::ranges::count(text, ' ') >= kMostLives) refuse_value(key, text, expected);
  std::vector<Life> lives;
  std::set<std::pair<int, int>> seen;
  for (const std::string_view name : split_value(text, ' ')) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const auto rank = parse_number<int>(name.substr(0, dot));
    const auto restarts = parse_number<int>(name.substr(std::min(dot + 1, name.size())));
    if (!rank || !restarts || *rank < 0 || *restarts < 0 || *rank == kLargest) refuse_value(key, text, expected);
    if (!seen.insert({*rank, *restarts}).second)
      refuse_value(key, text, concat("a list in which each process is once; ", name, " is there twice"));
    lives.push_back({*rank, *restarts});
  }
  return lives;
}

}  // namespace tandem::comm
