// comm/tree_reduce.h: element-wise sums of several arrays along the recursive-halving tree (base/summation_tree.h).
//
// Threads: any, each for elements of its own. Nothing here allocates or waits. A hot loop: an all-reduce within a
// process or a host is this and two waits.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

namespace tandem::comm {

/// Writes to elements [begin, end) of every array the sum over all of them, in the association of the recursive-halving
/// tree over the arrays' order. Arrays are on the CPU and do not overlap.
using TreeReduce = void(std::span<void* const> arrays, std::int64_t begin, std::int64_t end);

/// The loop for arrays of `dtype`: float, double, int64, Half and BFloat16 (both summed as float and rounded once).
/// Null for other types.
[[nodiscard]] TreeReduce* tree_reduce_of(c10::ScalarType dtype);

/// Calls tree_reduce_of(dtype); throws InvariantError when that is null.
void tree_reduce(std::span<void* const> arrays, c10::ScalarType dtype, std::int64_t begin, std::int64_t end);

}  // namespace tandem::comm
