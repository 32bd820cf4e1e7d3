// rl/policy/kernels/squashed_normal_gradient.h: actions drawn from a squashed normal distribution whose mean and
// log_std are the two halves of a network's head, their log-probabilities, and the backward pass of both, without
// autograd.
//
// With given standard normal noise e: u = mean + exp(log_std) e, a = tanh(u),
//   log p(a) = sum over components of -e^2/2 - log_std - log(2 pi)/2 - log(1 - a^2).
// model::SquashedNormal::draw_with_gradient() is the definition; results agree with it to rounding. Actions are within
// [-1, 1]; whoever steps the environment scales them to its bounds.
//
// Threads: single-thread, the replica's. All memory is taken when the object is made.
#pragma once
#include <cstdint>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

/// `Real`: float or double.
template <typename Real>
class SquashedNormalGradient {
 public:
  /// For actions of `size` components and up to `max_rows` rows a call. Throws ConfigError when this processor does not
  /// have `set`.
  SquashedNormalGradient(std::int64_t size, std::int64_t max_rows, const LogStdRange& range, InstructionSet set);
  SquashedNormalGradient(const SquashedNormalGradient&) = delete;
  SquashedNormalGradient& operator=(const SquashedNormalGradient&) = delete;

  /// `head` [rows, 2 size]: the means of a row, then its numbers for log_std. `noise` [rows, size]. Fills action() and
  /// log_prob(). Throws InvariantError when rows > max_rows.
  void forward(const Real* head, const Real* noise, std::int64_t rows);
  [[nodiscard]] const Real* action() const { return action_.data(); }      // [rows, size]
  [[nodiscard]] const Real* log_prob() const { return log_prob_.data(); }  // [rows]

  /// The derivatives with respect to `head`, [rows, 2 size], of a loss whose derivatives with respect to the action,
  /// [rows, size], and to log_prob, [rows], are given, for the rows of the last forward(); once for each. The noise is
  /// held fixed.
  const Real* backward(const Real* of_action, const Real* of_log_prob);

 private:
  // The columns of the block that begins at `row`, and one component of it as the loops take it.
  [[nodiscard]] Real* block_at(std::int64_t row);
  [[nodiscard]] SquashBlock<Real> component(std::int64_t row, std::int64_t j);

  const BlockKernels<Real>& kernels_;
  const std::int64_t size_, max_rows_;
  const LogStdRange range_;
  // Rows of the last forward(), 0 after backward().
  std::int64_t rows_ = 0;
  // The columns of all blocks, on which the loops work.
  AlignedArray<Real> columns_;
  // Rows, as the caller sees them.
  AlignedArray<Real> action_, log_prob_, of_head_;
  // [kBlock] each.
  AlignedArray<Real> of_action_, of_log_prob_;
};

extern template class SquashedNormalGradient<float>;
extern template class SquashedNormalGradient<double>;

}  // namespace tandem::rl
