// base/edit_distance.h: how far two names are from each other, for "did you mean".
#pragma once
#include <string_view>

namespace tandem {

/// Fewest insertions, deletions, replacements and swaps of neighbours that make `b` of `a` (optimal string alignment).
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

}  // namespace tandem
