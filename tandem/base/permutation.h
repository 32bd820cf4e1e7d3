// base/permutation.h: a random order of indices.
#pragma once
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "tandem/base/philox.h"

namespace tandem {

/// Puts `items` into a random order, each order equally likely (Fisher and Yates). In place, without allocation; the
/// result depends only on the state of `random`.
template <typename Item>
void shuffle(std::span<Item> items, Philox& random) {
  for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random.below(left)]);
}

/// Writes a random order of 0 .. indices.size()-1. What was there before does not matter.
inline void random_permutation(std::span<std::int64_t> indices, Philox& random) {
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  shuffle(indices, random);
}

}  // namespace tandem
