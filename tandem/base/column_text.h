// base/column_text.h: cells of a table of plain text.
//
// The width counts bytes, so the text should be ASCII. A text that is wider than its column is not cut.
//
// Threads: all.
#pragma once
#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

namespace tandem {

/// Pads `text` with spaces in front, up to `width`.
[[nodiscard]] inline std::string align_right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

/// Pads `text` with spaces behind, up to `width`.
[[nodiscard]] inline std::string align_left(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// `value` with `digits` digits after the point. At most 63 characters.
[[nodiscard]] inline std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

}  // namespace tandem
