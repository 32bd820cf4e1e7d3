// shm/testing/tree_sum.h: the sum of arrays along the tree, written as plainly as can be.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/shm/member.h"

namespace tandem::shm {

template <typename T>
void plain_tree_sum(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const auto leaf = [&](int rank) { return static_cast<const T*>(arrays[static_cast<std::size_t>(rank)])[i]; };
    const T sum = tree_sum(Range{0, static_cast<int>(arrays.size())}, leaf, std::plus<T>());
    for (void* array : arrays) static_cast<T*>(array)[i] = sum;
  }
}

inline constexpr Element kFloat32{.name = "float32", .bytes = 4, .sum = plain_tree_sum<float>};
inline constexpr Element kFloat64{.name = "float64", .bytes = 8, .sum = plain_tree_sum<double>};

/// Values that tell rank and place, and whose sum depends on the association.
template <typename T>
T stamp(int rank, std::int64_t i) {
  return (static_cast<T>(i) * T(0.1) + T(1) / static_cast<T>(rank + 3)) * static_cast<T>(std::pow(10.0, rank % 4));
}

template <typename T>
std::vector<T> stamped(int rank, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(stamp<T>(rank, i));
  return values;
}

template <typename T>
std::vector<T> sum_of_stamped(int ranks, std::int64_t count) {
  std::vector<T> sums;
  for (std::int64_t i = 0; i < count; ++i) {
    sums.push_back(tree_sum(
        Range{0, ranks}, [&](int rank) { return stamp<T>(rank, i); }, std::plus<T>()));
  }
  return sums;
}

}  // namespace tandem::shm
