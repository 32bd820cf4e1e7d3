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

/// Returns the sum of squares of a one-dimensional contiguous floating tensor, in float64. NaN and infinity pass
/// through.
[[nodiscard]] double sum_of_squares(const at::Tensor& flat);

/// The sum of squares of each block of `flat`, for who holds only part of a vector: sum_of_blocks() over the blocks of
/// all parts, in order, is sum_of_squares() of the whole.
[[nodiscard]] std::vector<double> block_sums_of_squares(const at::Tensor& flat);

/// Sum along the recursive-halving tree (base/summation_tree.h). Zero for an empty span.
[[nodiscard]] double sum_of_blocks(std::span<const double> sums);

/// sum_of_squares() of a vector of which one part after the other becomes final. Each block is summed when all of its
/// elements are there, so that little is left to do when the last part comes. The parts may come in any order and be
/// cut anywhere: the bits are those of sum_of_squares() of the whole. Single-thread.
class SumOfSquaresByParts {
 public:
  /// For the vector `flat` (one-dimensional, contiguous, floating), whose memory must stay.
  explicit SumOfSquaresByParts(at::Tensor flat);

  /// Begins a new vector in the same memory: no part of it has come yet.
  void begin();
  /// Tells that elements begin .. end-1 are final. Parts do not overlap.
  void take(std::int64_t begin, std::int64_t end);
  /// The sum of squares of the whole vector, once all elements have come.
  [[nodiscard]] double sum() const;

 private:
  void sum_blocks(std::int64_t first, std::int64_t last);

  const at::Tensor flat_;
  std::vector<std::int64_t> missing_;  // elements, by block
  std::vector<double> sums_;           // by block
};

}  // namespace tandem::model
