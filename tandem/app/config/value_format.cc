#include "tandem/app/config/value_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::string escaped(unsigned char byte) {
  static constexpr char kHex[] = "0123456789abcdef";
  return concat("\\x", kHex[byte >> 4], kHex[byte & 15]);
}

// characters, beyond which a value in a message is cut
constexpr std::size_t kMostShown = 60;

// Control characters of a file must not reach the terminal.
std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (shown.size() >= kMostShown && (byte & 0xC0) != 0x80) return shown + "...";  // not within a UTF-8 character
    if (byte < 0x20 || byte == 0x7F) {
      shown += escaped(byte);
    } else {
      shown += c;
    }
  }
  return shown;
}

// Whole items are shown until the limit is passed.
std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    if (text.size() > kMostShown) return "[" + text + ", ...]";
    text += (text.empty() ? "" : ", ") + printable(item);
  }
  return "[" + text + "]";
}

// The whole text must be the number; std::from_chars takes no plus sign and depends on no locale.
template <typename Number>
std::optional<Number> read_whole(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_number<Number>(text);
}

// Underscores between digits group them; anywhere else they are a fault.
std::optional<std::string> without_groups(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const auto is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return digits;
}

// Text that YAML 1.2 and our own formats take as it stands.
// When in doubt it answers no: quotes are always right.
bool is_plain(std::string_view text) {
  static constexpr std::string_view kInside = "_-./:+@=";
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (text.empty() || text == "null" || text == "Null" || text == "NULL" || text == "~") return false;
  if (!is_word(text.front()) && text.front() != '/' && text.front() != '.') return false;
  if (text.back() == ':') return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_word(c) || kInside.find(c) != std::string_view::npos; });
}

}  // namespace

std::string describe(const RawValue& value) {
  switch (value.kind) {
    case RawValue::Kind::kNull:
      return "null";
    case RawValue::Kind::kSection:
      return "{...}";
    case RawValue::Kind::kList:
      return list(value.items);
    case RawValue::Kind::kText:
      break;
  }
  return value.text.empty() ? "\"\"" : printable(value.text);
}

std::string describe_fault(const Setting& setting, const std::string& problem) {
  const std::string place = setting.origin.place.empty() ? "" : " (" + setting.origin.place + ")";
  return printable(setting.key) + " = " + describe(setting.value) + place + ": " + problem;
}

std::optional<std::int64_t> read_integer(std::string_view text) {
  const std::optional<std::string> digits = without_groups(text);
  if (!digits) return std::nullopt;
  if (const std::optional<std::int64_t> value = read_whole<std::int64_t>(*digits)) return value;
  constexpr double kLargestExact = 9007199254740992.0;  // 2^53: beyond it a double does not name one integer
  const std::optional<double> value = read_whole<double>(*digits);
  if (!value || !(std::abs(*value) <= kLargestExact) || *value != std::floor(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<double> read_number(std::string_view text) {
  const std::optional<std::string> digits = without_groups(text);
  if (!digits) return std::nullopt;
  const std::optional<double> value = read_whole<double>(*digits);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> read_switch(std::string_view text) {
  // The words of YAML 1.1 and 1.2 in the forms that people write.
  for (const std::string_view word : {"true", "True", "TRUE", "on", "On", "yes", "Yes"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"false", "False", "FALSE", "off", "Off", "no", "No"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

std::string write_number(double value) {
  const double size = std::abs(value);
  // Plain digits where people would write them: 0.0003 and not 3e-04.
  const bool is_plain_size = value == 0 || (size >= 1e-4 && size < 1e9);
  std::array<char, 40> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value,
                                          is_plain_size ? std::chars_format::fixed : std::chars_format::scientific);
  TANDEM_CHECK(error == std::errc(), "a double has at most 24 significant characters");
  return {text.data(), end};
}

std::string write_text(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += concat('\\', c);
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += escaped(byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace tandem::app
