#include "tandem/model/distribution/normal.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

// log(2 pi) / 2: the constant of the normal density's logarithm.
const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

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
  return mean_ + log_std_.exp() * at::randn(mean_.sizes(), generator, mean_.options().requires_grad(false));
}

at::Tensor Normal::sample(at::Generator generator) const {
  at::NoGradGuard no_grad;
  return draw_actions(std::move(generator));
}

at::Tensor Normal::log_prob(const at::Tensor& actions) const {
  if (actions.sizes() != mean_.sizes() || !actions.is_floating_point()) {
    throw ConfigError(concat("Normal: actions ", actions.scalar_type(), " ", actions.sizes(), " do not fit mean ",
                             mean_.scalar_type(), " ", mean_.sizes()));
  }
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
  const auto* that = dynamic_cast<const Normal*>(&other);
  if (that == nullptr) throw ConfigError(concat("KL divergence of a Normal and a ", other.family()));
  return kl_to(*that);
}

at::Tensor Normal::kl_to(const Normal& that) const {
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

}  // namespace tandem::model
