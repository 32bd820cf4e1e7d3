// rl/algo/fused_rows.h: the rows of a batch where they lie, their observations and the actions that were taken,
// for passes without autograd.
//
// FusedBlock and FusedSequences share it: both take rows of a minibatch in any order, straight from the fragment's
// columns, so that no column is gathered. An observation is encoded row by row, since rows that follow each other in a
// minibatch seldom do in memory.
//
// Threads: single-thread, the replica's. Ownership: policy and rows are not owned.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/rl/policy/kernels/mlp_gradient.h"
#include "tandem/rl/policy/observation.h"

namespace tandem::rl {

/// The numbers of a column that lies on the CPU. Throws InvariantError naming it when it is not contiguous or of `T`.
/// The pointer is valid as long as the tensor's memory.
template <typename T>
[[nodiscard]] const T* memory_of(const at::Tensor& column, const char* name) {
  TANDEM_CHECK(column.is_cpu() && column.is_contiguous() && column.scalar_type() == c10::CppTypeToScalarType<T>(),
               "column ", name, " is ", column.scalar_type(), " on ", column.device().str());
  return column.const_data_ptr<T>();
}

/// The policy's numbers of one row, and the derivatives of the loss with respect to them. `divergence`: from a
/// reference, where there is one.
struct BlockSample {
  double log_prob = 0, entropy = 0, value = 0, divergence = 0;
};
/// Each is the derivative of the sum over all rows, not of the mean: gradients of shards can so be added.
using BlockSlopes = BlockSample;

/// `Real`: of the policy's parameters and of the columns, but for observations.
template <typename Real>
class FusedRows {
 public:
  explicit FusedRows(const ActorCritic& policy);

  /// Takes the rows that are meant: on the CPU, contiguous, with actions of int64 or, normal ones, of `Real`, and masks
  /// of uint8; there may be more rows of observations and masks than of actions. They live until the last row is
  /// read. Throws InvariantError for columns of another kind.
  void begin(const ActedRows& rows);
  /// Makes the action of row `row`, and its mask, sample `i` of the next block; `draw` as ActionGradient::take().
  void take_action(std::int64_t row, ActionGradient<Real>& actions, std::int64_t i,
                   std::int64_t draw = ActionGradient<Real>::kNoDraw) const;
  /// Where the leaves of the row's observation lie, until the next call, in the order of the spec. EncoderNet makes
  /// features of them, with a torso for images or without.
  [[nodiscard]] std::span<const std::byte* const> leaves_of(std::int64_t row);

 private:
  const bool discrete_;
  std::vector<std::size_t> leaf_bytes_;  // of a row, by leaf of the observation
  const std::vector<at::Tensor>* observation_ = nullptr;
  const std::int64_t* options_ = nullptr;  // of the actions taken, or else
  const Real* components_ = nullptr;
  const std::uint8_t* mask_ = nullptr;  // or null
  std::int64_t mask_size_ = 0;
  std::vector<const std::byte*> leaves_;  // of one row
};

extern template class FusedRows<float>;
extern template class FusedRows<double>;

}  // namespace tandem::rl
