#include "tandem/app/config/option.h"

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

Option& Option::absent_as(std::string word) {
  absent_word_ = std::move(word);
  // The default may be the absent word, which has just changed.
  default_text_ = text();
  return *this;
}

std::optional<std::string> Option::assign(const Setting& setting) {
  std::optional<std::string> problem = take(setting.value);
  if (problem) {
    // Stays so when a stronger layer sets a good value: the fault ends the configuration anyway.
    is_faulty_ = true;
  } else {
    origin_ = setting.origin;
  }
  return problem;
}

void Option::clear() {
  restore();
  origin_ = {};
}

std::string Option::expected_value(const std::string& kind) const {
  if (!words_.empty()) return list_of_words(words_);
  const std::string bounds = range_.text();
  return bounds.empty() ? kind : kind + " " + bounds;
}

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

}  // namespace tandem::app
