// The text has one option a line, so that lines of an earlier text can be matched by their keys. read_yaml() reads it
// back as the same options, which the fuzz target checks for any settings.
#include "tandem/app/config/config_text.h"

#include <algorithm>
#include <map>
#include <sstream>

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

constexpr std::size_t kCommentColumn = 44;

// Comments start in one column where the value is short enough.
std::string with_comment(std::string line, const std::string& comment) {
  if (comment.empty()) return line;
  pad(line, kCommentColumn);
  return line + "  # " + one_line(comment);
}

// The lines of a text that config_text() made, by key.
// Knows only the form that config_text() writes: one option a line, sections indented by two spaces.
std::map<std::string, std::string> lines_by_key(std::string_view text) {
  std::map<std::string, std::string> lines;
  std::istringstream in{std::string(text)};
  std::string section;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.front() == '#') continue;
    if (!line.starts_with("  ")) section.clear();
    if (colon + 1 == line.size()) {
      section = line.substr(0, colon) + ".";
    } else {
      lines[section.empty() ? line.substr(0, colon) : section + line.substr(2, colon - 2)] = line;
    }
  }
  return lines;
}

// Where the value of an option that was read from such a text came from at first. `line` is the one of now, without
// a comment; `place` is in the text.
std::string first_place(const std::string& line, const std::string& before, const std::string& place) {
  if (before == line) return "";
  std::string start = line;
  pad(start, kCommentColumn);
  start += "  # ";
  return before.starts_with(start) ? before.substr(start.size()) : place;
}

}  // namespace

std::string config_text(const OptionTable& table, std::string_view title, std::string_view recorded) {
  const std::map<std::string, std::string> before = lines_by_key(recorded);
  std::string text = "# " + std::string(title) + "\n";
  std::string section;
  for (const auto& option : table.options()) {
    // A resume must not find the folder or the verbosity of an earlier call.
    if (option->lifetime() == Lifetime::kCall) continue;
    if (!table.has_effect(*option)) continue;
    // Writes only the rival that is in force, since both in one file would contradict each other.
    if (option->is_absent() && !table.rivals_of(*option).empty()) continue;
    const Name name = split(option->key());
    if (name.section != section) text += name.section + ":\n";
    // Options of a section follow each other, so each section is opened once.
    section = name.section;
    const std::string line = (section.empty() ? "" : "  ") + name.leaf + ": " + option->text();
    const Origin& origin = option->origin();
    const auto found = origin.layer == Layer::kRecord ? before.find(option->key()) : before.end();
    text += with_comment(line, found == before.end() ? origin.place : first_place(line, found->second, origin.place));
    text += '\n';
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
