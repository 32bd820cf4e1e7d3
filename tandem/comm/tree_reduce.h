// comm/tree_reduce.h: element-wise sums of several arrays along the recursive-halving tree.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

namespace tandem::comm {

/// Writes to elements [begin, end) of every array the sum over all of them, in the association of the recursive-halving
/// tree over the arrays' order. Arrays are on the CPU and do not overlap. float, double, int64, Half and BFloat16
/// (summed as float, rounded once); throws InvariantError for another dtype.
void tree_reduce(std::span<void* const> arrays, c10::ScalarType dtype, std::int64_t begin, std::int64_t end);

}  // namespace tandem::comm
