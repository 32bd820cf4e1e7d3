// model/norm_of_parts.h: sum_of_squares() of a vector of which one part after the other becomes final.
//
// Each block of model/norm.h is summed when all of its elements are there, so that little is left to do when the last
// part comes. The parts may come in any order and be cut anywhere: the bits are those of sum_of_squares() of the whole.
//
// Threads: single-thread. On a CUDA tensor take() waits for the device.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tandem::model {

class SumOfSquaresByParts {
 public:
  /// Of `flat` (one-dimensional, contiguous, floating), whose memory must stay.
  explicit SumOfSquaresByParts(at::Tensor flat);

  /// No part has come.
  void begin();
  /// Elements begin .. end-1 are final. Parts do not overlap.
  void take(std::int64_t begin, std::int64_t end);
  /// Once all elements have come.
  [[nodiscard]] double sum() const;

 private:
  void sum_blocks(std::int64_t first, std::int64_t last);

  const at::Tensor flat_;
  std::vector<std::int64_t> missing_;  // elements, by block
  std::vector<double> sums_;           // by block
};

}  // namespace tandem::model
