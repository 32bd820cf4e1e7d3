// base/text.h: puts values together into one string, for messages and for tables of plain text, and reads numbers.
//
// Numbers are written and read as in the C locale, whatever a library of the process has made of the global locale or
// of setlocale(): "43210" and "2.5", never "43.210" or "2,5". Text that goes into files or over the wire depends on it,
// so no other place makes a string stream for numbers, calls std::stod(), or prints a double with printf().
//
// Threads: all. It is not made for hot loops: each call makes a stream.
#pragma once
#include <array>
#include <charconv>
#include <cstddef>
#include <functional>
#include <locale>
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
  out.imbue(std::locale::classic());
  (void)(out << ... << values);
  return std::move(out).str();
}

/// A stream that reads `text`, whose numbers are those of concat().
[[nodiscard]] inline std::istringstream reader_of(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  return in;
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

/// `value` as printf() writes it in the C locale with such a precision: "%.2f", "%.2e", "%.2g"; in six significant
/// digits where that takes more than 63 characters.
[[nodiscard]] inline std::string formatted(double value, std::chars_format form, int precision) {
  std::array<char, 63> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, form, precision);
  return error == std::errc() ? std::string(text.data(), end) : concat(value);
}
/// `value` with `digits` digits after the point.
[[nodiscard]] inline std::string fixed(double value, int digits) {
  return formatted(value, std::chars_format::fixed, digits);
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
