// base/edit_distance.h: how far two names are from each other, for "did you mean" in messages.
//
// Threads: all. Takes time in proportion to the product of both lengths.
#pragma once
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

/// The fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment: no substring is edited twice). Fills the table of distances between the first i characters of `a` and the
/// first j of `b` row by row. Three rows are kept: a swap of neighbours looks two rows back.
[[nodiscard]] inline int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace tandem
