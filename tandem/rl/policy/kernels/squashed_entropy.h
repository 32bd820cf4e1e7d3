// rl/policy/kernels/squashed_entropy.h: what a squashed normal action has beyond a normal one, without autograd, a
// block of samples at a time: the density of tanh, and an entropy that is estimated by a draw.
// model::SquashedNormal is the definition: its log_prob() and entropy_estimate().
//
// A part of ActionGradient (mlp_gradient.h), whose words it has. Arrays are [actions, kBlock]. The density of the
// action that was taken needs u = atanh(action) once a row, and no parameter moves it, so it has no derivative here.
// The draw moves with mean and deviation, so the entropy has derivatives with respect to both.
//
// Threads: single-thread, the replica's. Real: the dtype of the policy's parameters, float or double.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

template <typename Real>
class SquashedEntropy {
 public:
  explicit SquashedEntropy(std::int64_t actions);

  /// Takes what the definition draws for `count` samples, from model::current_generator().
  void draw(std::int64_t count);
  /// Sets sample `i` of the next block: `action` [actions], within -1 .. 1, as what it was before tanh, which goes to
  /// `taken`; and the draw of sample `n` of all, or none where `n` is negative.
  void take(std::int64_t i, const Real* action, std::int64_t n, Real* taken);

  /// Adds tanh's part to `log_prob` [kBlock], and writes `entropy` [kBlock]. `mean`: before forward() of the normal
  /// action; `inverse_deviation` [actions].
  void forward(const Real* mean, const Real* inverse_deviation, std::int64_t samples, Real* log_prob, Real* entropy);
  /// Adds the entropy's part to the derivatives with respect to mean and log_std of component `a`, [kBlock] each.
  void add_back(std::int64_t a, std::int64_t samples, const Real* of_entropy, Real* of_mean, Real* of_log_std) const;

 private:
  const std::int64_t actions_;
  at::Tensor drawn_;  // [count, actions]
  // Each sample's log |d tanh(u) / du| of the action taken, summed, [kBlock]; the noise of the draw; deviation times
  // noise; tanh of the draw.
  AlignedArray<Real> log_slope_, noise_, moved_, squashed_;
};

extern template class SquashedEntropy<float>;
extern template class SquashedEntropy<double>;

}  // namespace tandem::rl
