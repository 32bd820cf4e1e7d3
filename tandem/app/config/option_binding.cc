#include "tandem/app/config/option_binding.h"

#include <algorithm>

namespace tandem::app {

// `above` with `from` is no pair that an option has.
std::string Range::text() const {
  if (from && to) return "from " + write_number(*from) + " to " + write_number(*to);
  if (above && to) return "above " + write_number(*above) + ", at most " + write_number(*to);
  if (above) return "above " + write_number(*above);
  if (from) return "at least " + write_number(*from);
  if (to) return "at most " + write_number(*to);
  return "";
}

namespace binding_detail {

// "a,,b" has an empty item, which the element's type then accepts or refuses.
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);  // as YAML writes lists
  if (text.empty()) return items;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = text.find(',', begin);
    std::string item(text.substr(begin, comma == std::string_view::npos ? comma : comma - begin));
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    items.push_back(std::move(item));
    if (comma == std::string_view::npos) return items;
    begin = comma + 1;
  }
}

std::string expected_text(const std::string& kind, const OptionBinding& limits) {
  std::string words;
  for (std::size_t i = 0; i < limits.words.size(); ++i) {
    if (i > 0) words += i + 1 == limits.words.size() ? " or " : ", ";
    words += limits.words[i];
  }
  if (!words.empty()) return words;
  const std::string bounds = limits.range.text();
  return bounds.empty() ? kind : kind + " " + bounds;
}

bool is_word(const std::string& text, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace binding_detail
}  // namespace tandem::app
