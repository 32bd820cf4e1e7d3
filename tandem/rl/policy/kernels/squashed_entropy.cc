#include "tandem/rl/policy/kernels/squashed_entropy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tandem/model/distribution/normal.h"
#include "tandem/model/shard_random.h"

namespace tandem::rl {
namespace {

// log(1 - tanh(u)^2), also where tanh is 1.
template <typename Real>
Real log_slope_of(Real u) {
  const Real softplus = std::max(-2 * u, Real{0}) + std::log1p(std::exp(-std::abs(2 * u)));
  return 2 * (std::numbers::ln2_v<Real> - u - softplus);
}

}  // namespace

// Samples past those of a block keep what an earlier block left there: finite numbers, which derivatives of zero meet.
template <typename Real>
SquashedEntropy<Real>::SquashedEntropy(std::int64_t actions)
    : actions_(actions),
      log_slope_(kBlock),
      noise_(actions * kBlock),
      moved_(actions * kBlock),
      squashed_(actions * kBlock) {}

// One call for all samples, as the definition makes it, so that both have the same numbers.
template <typename Real>
void SquashedEntropy<Real>::draw(std::int64_t count) {
  const at::NoGradGuard no_grad;
  constexpr at::ScalarType dtype = c10::CppTypeToScalarType<Real>();
  drawn_ = at::randn({count, actions_}, model::current_generator(), at::TensorOptions(dtype));
}

// Actions of 1 and -1 are what rounding leaves of larger draws; the definition moves them within the same bound.
template <typename Real>
void SquashedEntropy<Real>::take(std::int64_t i, const Real* action, std::int64_t n, Real* taken) {
  const Real bound = static_cast<Real>(model::SquashedNormal::limit(c10::CppTypeToScalarType<Real>()));
  const Real* const drawn = n < 0 ? nullptr : drawn_.const_data_ptr<Real>() + n * actions_;
  Real log_slope = 0;
  for (std::int64_t a = 0; a < actions_; ++a) {
    const Real u = std::atanh(std::clamp(action[a], -bound, bound));
    taken[a * kBlock + i] = u;
    log_slope += log_slope_of(u);
    noise_.data()[a * kBlock + i] = drawn == nullptr ? Real{0} : drawn[a];
  }
  log_slope_.data()[i] = log_slope;
}

// The estimate is -log pi(tanh(u)) of a draw u = mean + deviation noise.
template <typename Real>
void SquashedEntropy<Real>::forward(const Real* mean, const Real* inverse_deviation, std::int64_t samples,
                                    Real* log_prob, Real* entropy) {
  const Real half_log_two_pi = static_cast<Real>(0.5 * std::log(2 * std::numbers::pi));
  for (std::int64_t s = 0; s < samples; ++s) log_prob[s] -= log_slope_.data()[s];
  std::fill_n(entropy, samples, Real{0});
  for (std::int64_t a = 0; a < actions_; ++a) {
    const Real deviation = 1 / inverse_deviation[a], constant = std::log(deviation) + half_log_two_pi;
    for (std::int64_t s = a * kBlock, i = 0; i < samples; ++s, ++i) {
      const Real noise = noise_.data()[s], u = mean[s] + deviation * noise;
      moved_.data()[s] = deviation * noise;
      squashed_.data()[s] = std::tanh(u);
      entropy[i] += noise * noise / 2 + constant + log_slope_of(u);
    }
  }
}

// The slope of log(1 - tanh(u)^2) is -2 tanh(u); u moves by 1 with the mean, by deviation noise with log_std.
template <typename Real>
void SquashedEntropy<Real>::add_back(std::int64_t a, std::int64_t samples, const Real* of_entropy, Real* of_mean,
                                     Real* of_log_std) const {
  for (std::int64_t s = a * kBlock, i = 0; i < samples; ++s, ++i) {
    const Real of_draw = -2 * squashed_.data()[s] * of_entropy[i];
    of_mean[i] += of_draw;
    of_log_std[i] += of_draw * moved_.data()[s];
  }
}

template class SquashedEntropy<float>;
template class SquashedEntropy<double>;

}  // namespace tandem::rl
