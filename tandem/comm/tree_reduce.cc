#include "tandem/comm/tree_reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <type_traits>

#include "tandem/base/check.h"
#include "tandem/base/cpu.h"

// Plan: up to eight arrays are summed element by element, in one pass that loads and stores each array once; the
// compiler vectorizes it. Of more arrays, a strip that fits the first-level cache is summed along the tree and then
// copied to all.
//
// The additions are the same for vectors of any width, so the widest that the processor has is used, whichever
// instruction set the run agreed on. Stores go through the caches: streaming stores were slower for sums that fit them.
namespace tandem::comm {
namespace {

template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float, T>;

template <typename T, int Begin, int End>
TANDEM_INLINE Accumulator<T> sum_at(T* const* arrays, std::int64_t i) {
  if constexpr (End - Begin == 1) {
    return static_cast<Accumulator<T>>(arrays[Begin][i]);
  } else {
    constexpr int kMiddle = Begin + (End - Begin + 1) / 2;
    return sum_at<T, Begin, kMiddle>(arrays, i) + sum_at<T, kMiddle, End>(arrays, i);
  }
}

// The count is a constant, so that sum_at() unrolls to the additions of the tree. The pragmas say that the arrays do
// not overlap.
template <typename T, int Count>
TANDEM_INLINE void reduce_few(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
  T* to[Count];
  for (int array = 0; array < Count; ++array) to[array] = static_cast<T*>(arrays[static_cast<std::size_t>(array)]);
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::int64_t i = begin; i < end; ++i) {
    const T sum = static_cast<T>(sum_at<T, 0, Count>(to, i));
    for (int array = 0; array < Count; ++array) to[array][i] = sum;
  }
}

constexpr int kStrip = 1024;

// Sums one strip by recursion over the tree. `sum` has room for one strip for each level of the tree; the first
// receives the result.
template <typename T>
void sum_strip(std::span<void* const> arrays, std::int64_t begin, int count, Accumulator<T>* sum) {
  if (arrays.size() == 1) {
    const T* from = static_cast<const T*>(arrays[0]) + begin;
    for (int i = 0; i < count; ++i) sum[i] = static_cast<Accumulator<T>>(from[i]);
    return;
  }
  const std::size_t half = (arrays.size() + 1) / 2;
  sum_strip<T>(arrays.first(half), begin, count, sum);
  Accumulator<T>* right = sum + kStrip;
  sum_strip<T>(arrays.subspan(half), begin, count, right);
  for (int i = 0; i < count; ++i) sum[i] += right[i];
}

template <typename T>
void reduce_many(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
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

// Calls the loop for as many arrays as there are.
template <typename T, int Count = 2>
TANDEM_INLINE void reduce(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
  if (arrays.size() == Count) return reduce_few<T, Count>(arrays, begin, end);
  if constexpr (Count < 8) return reduce<T, Count + 1>(arrays, begin, end);
  if (arrays.size() > Count) reduce_many<T>(arrays, begin, end);
}

template <typename T>
void reduce_portable(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
  reduce<T>(arrays, begin, end);
}
#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2")]] void reduce_avx2(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
  reduce<T>(arrays, begin, end);
}
template <typename T>
[[gnu::target("avx512f")]] void reduce_avx512(std::span<void* const> arrays, std::int64_t begin, std::int64_t end) {
  reduce<T>(arrays, begin, end);
}
#endif

template <typename T>
TreeReduce* widest() {
#if defined(__x86_64__)
  static const InstructionSet set = detect_instruction_set();
  if (set == InstructionSet::kAvx512) return reduce_avx512<T>;
  if (set == InstructionSet::kAvx2) return reduce_avx2<T>;
#endif
  return reduce_portable<T>;
}

}  // namespace

TreeReduce* tree_reduce_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kFloat:
      return widest<float>();
    case c10::kDouble:
      return widest<double>();
    case c10::kLong:
      return widest<std::int64_t>();
    case c10::kHalf:
      return widest<c10::Half>();
    case c10::kBFloat16:
      return widest<c10::BFloat16>();
    default:
      return nullptr;
  }
}

void tree_reduce(std::span<void* const> arrays, c10::ScalarType dtype, std::int64_t begin, std::int64_t end) {
  TreeReduce* const reduce_them = tree_reduce_of(dtype);
  TANDEM_CHECK(reduce_them != nullptr, "tensors of ", c10::toString(dtype), " cannot be summed over a group");
  reduce_them(arrays, begin, end);
}

}  // namespace tandem::comm
