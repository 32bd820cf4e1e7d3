// app/commands/columns.h: rows of texts as lines in columns. A function on values; threads: all.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace tandem::app {

/// Columns are as wide as their widest text, two spaces apart, without blanks at the ends of lines.
template <std::size_t kColumns>
[[nodiscard]] std::string in_columns(const std::vector<std::array<std::string, kColumns>>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace tandem::app
