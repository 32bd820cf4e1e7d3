#include "tandem/model/distribution/normal.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace tandem::model {
namespace {

// log(2 pi) / 2: the constant of the normal density's logarithm.
const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

// tanh, kept off +-1 so that the inverse is finite.
at::Tensor squash(const at::Tensor& u) {
  const double limit = SquashedNormal::limit(u.scalar_type());
  return u.tanh().clamp(-limit, limit);
}

// The log_std of an action over all noise matrices: its variance is latent^2 sigma^2, and the floor.
at::Tensor log_std_over_matrices(const at::Tensor& mean, const at::Tensor& latent, const at::Tensor& log_std) {
  const bool fits = mean.dim() >= 1 && latent.dim() == mean.dim() && log_std.dim() == 2 &&
                    latent.sizes().slice(0, latent.dim() - 1) == mean.sizes().slice(0, mean.dim() - 1) &&
                    log_std.size(0) == latent.size(-1) && log_std.size(1) == mean.size(-1);
  if (!fits) {
    throw ConfigError(concat("StateDependentNoise: mean ", mean.sizes(), ", latent ", latent.sizes(), " and log_std ",
                             log_std.sizes(),
                             " do not fit; they must be [..., size], [..., features] and [features, size]"));
  }
  const at::Tensor variance = at::matmul(latent.square(), (log_std * 2).exp());
  return (variance + StateDependentNoise::kVarianceFloor).log() * 0.5;
}

}  // namespace

Normal::Normal(const at::Tensor& mean, const at::Tensor& log_std) : mean_(mean), log_std_(log_std) {
  const bool fits = mean.dim() >= 1 && log_std.dim() >= 1 && mean.size(-1) == log_std.size(-1) &&
                    at::is_expandable_to(log_std.sizes(), mean.sizes());
  if (!fits || !mean.is_floating_point() || log_std.scalar_type() != mean.scalar_type()) {
    throw ConfigError(concat("Normal: log_std ", log_std.scalar_type(), " ", log_std.sizes(), " does not fit mean ",
                             mean.scalar_type(), " ", mean.sizes(),
                             "; both must be floating point of one dtype, [..., size] and [size] or [..., size]"));
  }
}

// The reparameterised draw: mean + deviation * standard normal.
at::Tensor Normal::draw_actions(at::Generator generator) const {
  const at::Device drawn_on = generator.defined() ? generator.device() : mean_.device();
  const at::Tensor noise = at::randn(mean_.sizes(), generator, mean_.options().device(drawn_on).requires_grad(false));
  return mean_ + log_std_.exp() * noise.to(mean_.device());
}

at::Tensor Normal::sample(at::Generator generator) const {
  at::NoGradGuard no_grad;
  return draw_actions(std::move(generator));
}

void Normal::check_shape(const at::Tensor& actions) const {
  if (actions.sizes() == mean_.sizes() && actions.is_floating_point()) return;
  throw ConfigError(concat(family(), ": actions ", actions.scalar_type(), " ", actions.sizes(), " do not fit mean ",
                           mean_.scalar_type(), " ", mean_.sizes()));
}

at::Tensor Normal::log_prob(const at::Tensor& actions) const {
  check_shape(actions);
  const at::Tensor z = (actions - mean_) * (-log_std_).exp();
  // The terms of log_std are summed in its own shape, which is a single row when it is the same in every state.
  return z.square().sum(-1) * -0.5 - (log_std_.sum(-1) + kHalfLogTwoPi * static_cast<double>(mean_.size(-1)));
}

// The sum over elements of log_std + (1 + log(2 pi)) / 2.
at::Tensor Normal::entropy() const {
  const at::Tensor each = log_std_.sum(-1) + (0.5 + kHalfLogTwoPi) * static_cast<double>(mean_.size(-1));
  return each.expand(mean_.sizes().slice(0, mean_.dim() - 1));
}

at::Tensor Normal::kl(const Distribution& other) const {
  const auto& that = of_this_family<Normal>(other);
  // log(s2/s1) + (s1^2 + (m1 - m2)^2) / (2 s2^2) - 1/2, in logarithms of s
  const at::Tensor log_ratio = log_std_ - that.log_std_;
  const at::Tensor shift = (mean_ - that.mean_) * (-that.log_std_).exp();
  return ((log_ratio * 2).exp() * 0.5 + shift.square() * 0.5 - log_ratio - 0.5).sum(-1);
}

Draw Normal::draw_with_gradient(at::Generator generator) const {
  at::Tensor actions = draw_actions(std::move(generator));
  at::Tensor density = log_prob(actions);
  return {std::move(actions), std::move(density)};
}

double SquashedNormal::limit(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1 - std::numeric_limits<double>::epsilon() / 2
                              : 1 - static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;
}

at::Tensor SquashedNormal::sample(at::Generator generator) const {
  return squash(Normal::sample(std::move(generator)));
}

at::Tensor SquashedNormal::mode() const { return squash(Normal::mode()); }

// log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), summed over the elements.
at::Tensor SquashedNormal::log_prob_before_squashing(const at::Tensor& u) const {
  const at::Tensor log_slope = (std::numbers::ln2 - u - at::softplus(u * -2)) * 2;
  return Normal::log_prob(u) - log_slope.sum(-1);
}

at::Tensor SquashedNormal::log_prob(const at::Tensor& actions) const {
  check_shape(actions);
  const double bound = limit(mean_.scalar_type());
  return log_prob_before_squashing(actions.clamp(-bound, bound).atanh());
}

at::Tensor SquashedNormal::entropy() const {
  throw ConfigError(
      "SquashedNormal has no closed form of the entropy: use entropy_estimate(generator), or set the entropy "
      "coefficient to 0");
}

Draw SquashedNormal::draw_with_gradient(at::Generator generator) const {
  const at::Tensor u = draw_actions(std::move(generator));
  return {squash(u), log_prob_before_squashing(u)};
}

Draw SquashedNormal::draw_of(const at::Tensor& noise) const {
  check_shape(noise);
  const at::Tensor u = mean_ + log_std_.exp() * noise;
  return {squash(u), log_prob_before_squashing(u)};
}

StateDependentNoise::StateDependentNoise(const at::Tensor& mean, const at::Tensor& latent, const at::Tensor& log_std)
    : Normal(mean, log_std_over_matrices(mean, latent, log_std)), latent_(latent), log_sigma_(log_std) {}

}  // namespace tandem::model
