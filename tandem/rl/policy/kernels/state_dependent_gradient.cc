#include "tandem/rl/policy/kernels/state_dependent_gradient.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tandem/model/distribution/normal.h"
#include "tandem/rl/policy/kernels/block_net.h"

namespace tandem::rl {

template <typename Real>
StateDependentGradient<Real>::StateDependentGradient(const at::Tensor& log_std, const BlockKernels<Real>& kernels)
    : log_std_(log_std),
      kernels_(kernels),
      features_(log_std.size(0)),
      actions_(log_std.size(1)),
      squared_sigma_(padded(features_ * actions_)),
      sum_(actions_ * padded(features_)),
      squares_(padded(features_) * kBlock),
      rows_of_squares_(kBlock * padded(features_)),
      inverse_deviation_(actions_ * kBlock),
      of_variance_(actions_ * kBlock) {}

// sigma^2 lies as log_std does, so that the product below reads it with a stride and nothing is transposed.
template <typename Real>
void StateDependentGradient<Real>::begin() {
  const Real* log_std = log_std_.const_data_ptr<Real>();
  std::transform(log_std, log_std + features_ * actions_, squared_sigma_.data(),
                 [](Real each) { return std::exp(2 * each); });
  std::fill_n(sum_.data(), actions_ * padded(features_), Real{0});
}

// The variance of a component is one product: sum over features of latent^2 sigma^2.
template <typename Real>
void StateDependentGradient<Real>::forward(Real* head, const Real* latent, const Real* taken, std::int64_t samples,
                                           Real* log_prob, Real* entropy) {
  samples_ = samples;
  for (std::int64_t f = 0; f < features_; ++f) {
    const Real* const of_feature = latent + f * kBlock;
    Real* const squares = squares_.data() + f * kBlock;
    for (std::int64_t s = 0; s < samples; ++s) squares[s] = of_feature[s] * of_feature[s];
  }
  kernels_.multiply({.rows = actions_,
                     .columns = samples,
                     .depth = features_,
                     .a = squared_sigma_.data(),
                     .a_row = 1,
                     .a_depth = actions_,
                     .b = squares_.data(),
                     .b_stride = kBlock,
                     .c = inverse_deviation_.data(),
                     .c_stride = kBlock});
  const Real half_log_two_pi = static_cast<Real>(0.5 * std::log(2 * std::numbers::pi));
  const Real floor = static_cast<Real>(model::StateDependentNoise::kVarianceFloor);
  std::fill_n(entropy, samples, Real{0});
  for (std::int64_t a = 0; a < actions_; ++a) {
    Real* const deviation = inverse_deviation_.data() + a * kBlock;
    Real* const z = head + a * kBlock;
    for (std::int64_t s = 0; s < samples; ++s) {
      const Real variance = deviation[s] + floor, log_std = std::log(variance) / 2;
      deviation[s] = 1 / std::sqrt(variance);
      z[s] = (taken[a * kBlock + s] - z[s]) * deviation[s];
      log_prob[s] -= z[s] * z[s] / 2 + log_std + half_log_two_pi;
      entropy[s] += log_std + half_log_two_pi + Real{0.5};
    }
  }
}

// With v the variance, the log-probability is -z^2 / 2 - log(v) / 2 and the entropy log(v) / 2, each and a constant. So
// both derivatives go through v, and from there to sigma by the same product the other way round. The features are
// constants here, as the definition detaches them.
template <typename Real>
void StateDependentGradient<Real>::backward(Real* head, const Real* of_log_prob, const Real* of_entropy) {
  for (std::int64_t a = 0; a < actions_; ++a) {
    const Real* const inverse = inverse_deviation_.data() + a * kBlock;
    Real* const of_variance = of_variance_.data() + a * kBlock;
    Real* const z = head + a * kBlock;
    for (std::int64_t s = 0; s < samples_; ++s) {
      const Real of_log_std = of_log_prob[s] * (z[s] * z[s] - 1) + of_entropy[s];
      of_variance[s] = of_log_std * inverse[s] * inverse[s] / 2;
      z[s] = of_log_prob[s] * z[s] * inverse[s];
    }
  }
  const std::int64_t stride = padded(features_);
  kernels_.transpose(squares_.data(), kBlock, features_, samples_, rows_of_squares_.data(), stride);
  kernels_.multiply({.rows = actions_,
                     .columns = stride,
                     .depth = samples_,
                     .a = of_variance_.data(),
                     .a_row = kBlock,
                     .a_depth = 1,
                     .b = rows_of_squares_.data(),
                     .b_stride = stride,
                     .c = sum_.data(),
                     .c_stride = stride,
                     .start = Product<Real>::Start::kKeep});
}

// The variance is the square of exp(log_std), whose derivative is twice itself.
template <typename Real>
void StateDependentGradient<Real>::finish() const {
  Real* const gradient = gradient_memory<Real>(log_std_);
  for (std::int64_t f = 0; f < features_; ++f) {
    for (std::int64_t a = 0; a < actions_; ++a) {
      const std::int64_t at = f * actions_ + a;
      gradient[at] = 2 * squared_sigma_.data()[at] * sum_.data()[a * padded(features_) + f];
    }
  }
}

template class StateDependentGradient<float>;
template class StateDependentGradient<double>;

}  // namespace tandem::rl
