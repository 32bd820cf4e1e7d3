// base/edit_distance.h: how far two names are from each other, for "did you mean" in messages.
//
// Threads: all. Takes time in proportion to the product of both lengths.
#pragma once
#include <string_view>

namespace tandem {

/// The fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment: no substring is edited twice).
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

}  // namespace tandem
