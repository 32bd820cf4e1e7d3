// base/column_text.h: cells of a table of plain text. Bytes are counted, so the text is ASCII; one that is wider than
// its column stays whole.
#pragma once
#include <cstddef>
#include <string>

namespace tandem {

/// `text` at the right of a column of `width`.
[[nodiscard]] inline std::string align_right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

/// Likewise at its left.
[[nodiscard]] inline std::string align_left(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace tandem
