// rl/policy/kernels/state_dependent_gradient.h: log-probability, entropy and gradients of actions with state-dependent
// noise (gSDE), without autograd, a block of samples at a time. model::StateDependentNoise is the definition.
//
// A part of ActionGradient (mlp_gradient.h), whose words it has. Arrays are [.., kBlock].
//
// Threads: single-thread, the replica's. Real: the dtype of log_std, float or double.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

template <typename Real>
class StateDependentGradient {
 public:
  /// `log_std` [features, actions]: a parameter, whose memory is read at each begin().
  StateDependentGradient(const at::Tensor& log_std, const BlockKernels<Real>& kernels);

  /// Takes log_std as it is now; the sum of its gradient begins at zero.
  void begin();
  /// Turns the means in `head` [actions, kBlock] into z = (taken - mean) / deviation, adds to `log_prob` and writes
  /// `entropy`, for a multiple of kPanel samples. `latent` [features, kBlock]: the actor's last hidden features.
  void forward(Real* head, const Real* latent, const Real* taken, std::int64_t samples, Real* log_prob, Real* entropy);
  /// Turns z into derivatives with respect to the means, for the samples of forward(), and adds to the sum of log_std's
  /// gradient. The features get none: model::StateDependentNoise is given them detached.
  void backward(Real* head, const Real* of_log_prob, const Real* of_entropy);
  /// Overwrites log_std's .grad.
  void finish() const;

 private:
  const at::Tensor log_std_;
  const BlockKernels<Real>& kernels_;
  const std::int64_t features_, actions_;
  std::int64_t samples_ = 0;
  // sigma^2 [features, actions], and the sum over samples of d loss / d variance times latent^2, [actions, features]
  // with padded rows.
  AlignedArray<Real> squared_sigma_, sum_;
  // latent^2 [features, kBlock], and the same by samples, [kBlock, padded features].
  AlignedArray<Real> squares_, rows_of_squares_;
  // [actions, kBlock]: the variance, then 1 / deviation; and derivatives with respect to the variance.
  AlignedArray<Real> inverse_deviation_, of_variance_;
};

extern template class StateDependentGradient<float>;
extern template class StateDependentGradient<double>;

}  // namespace tandem::rl
