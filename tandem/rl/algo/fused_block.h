// rl/algo/fused_block.h: rows of a batch through an MlpPolicy and back without autograd, a block of samples at a time:
// the network and the actions that were taken (mlp_gradient.h), and how rows come to them.
//
//     block.begin(rows);
//     block.differentiate(count, row_of, [&](std::int64_t row, const BlockSample& now) {
//       return BlockSlopes{...};  // the derivatives of the loss with respect to the numbers of `now`
//     });
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/rl/policy/kernels/mlp_gradient.h"
#include "tandem/rl/policy/observation.h"

namespace tandem::rl {

/// Why FusedBlock<float> cannot stand for `policy` and autograd, in a clause; empty when it can: an MlpPolicy of
/// float32 on the CPU, nothing of it frozen.
/// Looks at the policy as it is now: freezing a parameter or moving the policy later makes the answer stale.
[[nodiscard]] std::string why_not_fused(const ActorCritic& policy);

/// The numbers of a column that lies on the CPU. Throws InvariantError naming it when it is not contiguous or of `T`.
/// The pointer is valid as long as the tensor's memory.
template <typename T>
[[nodiscard]] const T* memory_of(const at::Tensor& column, const char* name) {
  TANDEM_CHECK(column.is_cpu() && column.is_contiguous() && column.scalar_type() == c10::CppTypeToScalarType<T>(),
               "column ", name, " is ", column.scalar_type(), " on ", column.device().str());
  return column.const_data_ptr<T>();
}

/// The policy's numbers of one row, and the derivatives of the loss with respect to them.
struct BlockSample {
  double log_prob, entropy, value;
};
using BlockSlopes = BlockSample;

/// `Real`: of the parameters and of the columns, but for observations.
template <typename Real>
class FusedBlock {
 public:
  /// Throws ConfigError when this processor does not have `set`.
  FusedBlock(const MlpPolicy& policy, InstructionSet set);

  /// Takes the parameters as they are now, and the rows that are meant; gradients begin at zero. `rows`: on the CPU,
  /// contiguous, with actions of int64 or, normal ones, of `Real`, and masks of uint8; there may be more rows of
  /// observations and masks than of actions. It lives until the last take(). Throws InvariantError for columns of
  /// another kind.
  void begin(const ActedRows& rows);
  /// Makes row `row` sample `i` of the next block, with its action, or its observation alone. `draw`: which of
  /// differentiate()'s draws the estimate of its entropy has, where it is an estimate; without one, entropy() is not
  /// it. Throw EnvError for an observation that is out of the spec's bounds.
  void take(std::int64_t i, std::int64_t row, std::int64_t draw = ActionGradient<Real>::kNoDraw);
  void take_observation(std::int64_t i, std::int64_t row);
  /// The first `samples` of the block: all of value(), log_prob() and entropy(), or value() alone.
  void forward(std::int64_t samples);
  void forward_values(std::int64_t samples) { network_.forward(samples); }

  [[nodiscard]] const Real* log_prob() const { return actions_.log_prob(); }  // [kBlock], of the actions taken
  [[nodiscard]] const Real* entropy() const { return actions_.entropy(); }    // [kBlock]
  [[nodiscard]] Real* value() { return network_.value(); }                    // [kBlock]

  /// Goes forward and backward over `count` rows, row_of(0) to row_of(count - 1), a block at a time while their
  /// activations are in the cache, and overwrites the .grad of all parameters with the sums. slopes_of(row, sample) is
  /// called for each row in this order. Entropies that are estimates take their draws from model::current_generator().
  template <typename RowOf, typename SlopesOf>
  void differentiate(std::int64_t count, const RowOf& row_of, const SlopesOf& slopes_of) {
    actions_.draw(count);
    for (std::int64_t first = 0; first < count; first += kBlock) {
      const std::int64_t samples = std::min(kBlock, count - first);
      for (std::int64_t i = 0; i < samples; ++i) take(i, row_of(first + i), first + i);
      forward(samples);
      for (std::int64_t i = 0; i < samples; ++i) {
        const BlockSlopes slopes = slopes_of(row_of(first + i), BlockSample{log_prob()[i], entropy()[i], value()[i]});
        of_log_prob_[i] = static_cast<Real>(slopes.log_prob);
        of_entropy_[i] = static_cast<Real>(slopes.entropy);
        value()[i] = static_cast<Real>(slopes.value);
      }
      backward(samples);
    }
    network_.finish();
    actions_.finish();
  }

 private:
  // Adds the gradients of the loss whose derivatives were written for `samples` samples, the values' over the values.
  void backward(std::int64_t samples);

  // Parameters are read at begin() and gradients are written at finish(); in between the policy is not touched.
  const MlpPolicy& policy_;
  MlpGradient<Real> network_;
  ActionGradient<Real> actions_;
  std::vector<std::size_t> leaf_bytes_;  // of a row, by leaf of the observation
  const std::vector<at::Tensor>* observation_ = nullptr;
  const std::int64_t* options_ = nullptr;  // of the actions taken, or else
  const Real* components_ = nullptr;
  const std::uint8_t* mask_ = nullptr;  // or null
  std::int64_t mask_size_ = 0;
  std::vector<const std::byte*> leaves_;  // of one row
  std::vector<float> features_;           // of one row, where Real is another type
  // Rows past the samples of a short block are set to zero by backward(), since kernels work on whole vectors.
  Real of_log_prob_[kBlock] = {}, of_entropy_[kBlock] = {};
};

extern template class FusedBlock<float>;
extern template class FusedBlock<double>;

}  // namespace tandem::rl
