// model/norm.h: the global norm of flat gradients, with the same bits on any topology.
//
// Sums of squares are float64 sums over fixed blocks of 65,536 elements, added along the recursive-halving tree over
// blocks. Inside a block element i goes to lane i mod 16 and the lanes are added along a tree as well, so the bits
// depend neither on threads, nor on alignment, nor on the instruction set.
//
// Threads: any. On a CUDA tensor it waits for the device.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::model {

inline constexpr std::int64_t kNormBlock = 65536;  // elements; whatever is partitioned is cut at multiples of it

/// Sum of squares of a one-dimensional contiguous floating tensor, in float64. NaN and infinity pass through.
[[nodiscard]] double sum_of_squares(const at::Tensor& flat);

/// The sum of squares of each block of `flat`, for who holds only part of a vector: sum_of_blocks() over the blocks of
/// all parts, in order, is sum_of_squares() of the whole.
[[nodiscard]] std::vector<double> block_sums_of_squares(const at::Tensor& flat);

/// Sum along the recursive-halving tree (base/summation_tree.h). Zero for an empty span.
[[nodiscard]] double sum_of_blocks(std::span<const double> sums);

}  // namespace tandem::model
