#include "tandem/comm/tree_reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <type_traits>

#include "tandem/base/check.h"

namespace tandem::comm {
namespace {

// Plan: a strip of the arrays that fits the first-level cache is summed into `sum` along the tree, then copied to all.
constexpr int kStrip = 1024;

template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float, T>;

// `sum` holds room for one strip a level of the tree; the first one receives the result.
template <typename T>
void sum_strip(std::span<void* const> arrays, std::int64_t begin, int count, Accumulator<T>* sum) {
  if (arrays.size() == 1) {
    const T* from = static_cast<const T*>(arrays[0]) + begin;
    for (int i = 0; i < count; ++i) sum[i] = static_cast<Accumulator<T>>(from[i]);
    return;
  }
  if (arrays.size() == 2) {
    const T* a = static_cast<const T*>(arrays[0]) + begin;
    const T* b = static_cast<const T*>(arrays[1]) + begin;
    for (int i = 0; i < count; ++i) sum[i] = static_cast<Accumulator<T>>(a[i]) + static_cast<Accumulator<T>>(b[i]);
    return;
  }
  const std::size_t half = (arrays.size() + 1) / 2;
  sum_strip<T>(arrays.first(half), begin, count, sum);
  Accumulator<T>* right = sum + kStrip;
  sum_strip<T>(arrays.subspan(half), begin, count, right);
  for (int i = 0; i < count; ++i) sum[i] += right[i];
}

template <typename T>
void reduce(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
  constexpr int kMostLevels = 12;  // 4,096 arrays
  TANDEM_CHECK(arrays.size() <= (1U << kMostLevels), "arrays: ", arrays.size());
  Accumulator<T> sum[kStrip * (kMostLevels + 1)];
  for (std::int64_t at = begin; at < end; at += kStrip) {
    const int count = static_cast<int>(std::min<std::int64_t>(kStrip, end - at));
    sum_strip<T>(arrays, at, count, sum);
    for (void* array : arrays) {
      T* to = static_cast<T*>(array) + at;
      for (int i = 0; i < count; ++i) to[i] = static_cast<T>(sum[i]);
    }
  }
}

}  // namespace

void tree_reduce(std::span<void* const> arrays, c10::ScalarType dtype, std::int64_t begin, std::int64_t end) {
  switch (dtype) {
    case c10::kFloat:
      return reduce<float>(arrays, begin, end);
    case c10::kDouble:
      return reduce<double>(arrays, begin, end);
    case c10::kLong:
      return reduce<std::int64_t>(arrays, begin, end);
    case c10::kHalf:
      return reduce<c10::Half>(arrays, begin, end);
    case c10::kBFloat16:
      return reduce<c10::BFloat16>(arrays, begin, end);
    default:
      TANDEM_CHECK(false, "tensors of ", c10::toString(dtype), " cannot be summed over a group");
  }
}

}  // namespace tandem::comm
