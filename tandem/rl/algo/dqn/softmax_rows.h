// rl/algo/dqn/softmax_rows.h: probabilities of rows of logits, and their logarithms, by the loops of BlockKernels,
// whose vectors go along the rows.
//
// torch's softmax and log_softmax are the definition; results agree with it to rounding. A row's numbers depend on that
// row and the instruction set alone.
//
// Threads: single-thread. Memory is taken when it is made.
#pragma once
#include <cstdint>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

class SoftmaxRows {
 public:
  /// For rows of `options` logits. Throws ConfigError when this processor does not have `set`.
  SoftmaxRows(std::int64_t options, InstructionSet set);
  SoftmaxRows(const SoftmaxRows&) = delete;
  SoftmaxRows& operator=(const SoftmaxRows&) = delete;

  /// From and to [rows, options]; the two may be one array.
  void probabilities(const float* logits, std::int64_t rows, float* to);
  /// Either result may be null.
  void run(const float* logits, std::int64_t rows, float* logarithms, float* probabilities);

 private:
  // The block's numbers, [options, kBlock], as rows of the caller's.
  void give(std::int64_t samples, float* to);

  const BlockKernels<float>& kernels_;
  const std::int64_t options_;
  // [kBlock, row_stride(options)], and [options, kBlock].
  AlignedFloats rows_, columns_;
  // [kBlock] each: what the loops ask for besides. No option is taken.
  AlignedFloats taken_, log_prob_, entropy_, minus_one_, zero_;
};

}  // namespace tandem::rl
