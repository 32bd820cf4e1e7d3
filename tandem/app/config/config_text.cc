#include "tandem/app/config/config_text.h"

#include <algorithm>

namespace tandem::app {
namespace {

struct Name {
  std::string section, leaf;
};

Name split(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

// A comment must not end early: places are file names and flags, which could hold a line break.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return text;
}

void pad(std::string& line, std::size_t width) {
  if (line.size() < width) line.append(width - line.size(), ' ');
}

}  // namespace

std::string config_text(const OptionTable& table, std::string_view title) {
  constexpr std::size_t kCommentColumn = 44;
  std::string text = "# " + std::string(title) + "\n";
  std::string section;
  for (const auto& option : table.options()) {
    if (option->lifetime() == Lifetime::kCall) continue;
    if (!table.has_effect(*option)) continue;
    // Of two rivals only the one in force is written, since both in one file would contradict each other.
    if (!option->rival().empty() && option->is_absent()) continue;
    const Name name = split(option->key());
    if (name.section != section) text += name.section + ":\n";
    section = name.section;
    std::string line = (section.empty() ? "" : "  ") + name.leaf + ": " + option->text();
    if (!option->origin().place.empty()) {
      pad(line, kCommentColumn);
      line += "  # " + one_line(option->origin().place);
    }
    text += line + "\n";
  }
  return text;
}

std::string option_listing(const OptionTable& table) {
  constexpr std::size_t kExpectedColumn = 44;
  std::string text;
  for (const auto& option : table.options()) {
    std::string line = "  " + option->key() + ": " + option->default_text();
    pad(line, kExpectedColumn);
    text += line + "  # " + option->expected() + "\n      " + option->help() + "\n";
  }
  return text;
}

}  // namespace tandem::app
