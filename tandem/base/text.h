// base/text.h: puts values together into one string, for messages and for tables of plain text, and reads numbers.
//
// Threads: all. It is not made for hot loops: each call makes a stream.
#pragma once
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tandem {

/// The values written one after the other with `operator<<`: concat("rank ", 3, " of ", 8). Numbers are written as a
/// stream writes them by default, so a double has six significant digits.
template <typename... Values>
[[nodiscard]] std::string concat(const Values&... values) {
  std::ostringstream out;
  (void)(out << ... << values);
  return std::move(out).str();
}

/// The texts that concat() makes of `write(item)`, for each item of `range`, with `separator` between: "0, 1, 4".
template <typename Range, typename Write = std::identity>
[[nodiscard]] std::string joined(const Range& range, const Write& write = {}, std::string_view separator = ", ") {
  std::string text;
  bool is_first = true;
  for (const auto& item : range) {
    if (!std::exchange(is_first, false)) text += separator;
    text += concat(std::invoke(write, item));
  }
  return text;
}

/// The number that the whole text is, as std::from_chars() reads it; nothing for another text, or for a number that
/// does not fit.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `value` with `digits` digits after the point. At most 63 characters.
[[nodiscard]] inline std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

/// Pads `text` with spaces in front, up to `width` bytes, so the text should be ASCII. A wider text is not cut.
[[nodiscard]] inline std::string align_right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

/// Pads `text` with spaces behind, up to `width`.
[[nodiscard]] inline std::string align_left(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// The length of the UTF-8 sequence at the front of `text`; 0 when it is not well-formed (RFC 3629, section 4).
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// The text as it may be shown on a terminal, where some characters are commands: line feeds and tabs stay, every other
/// control character and every byte that is no UTF-8 is written as \xHH. Names of files and environments, texts of
/// plugins and of other processes go through here wherever they are printed.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace tandem
