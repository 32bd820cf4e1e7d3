#include "tandem/model/distribution/state_dependent_noise.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

// The Normal of an action over all noise matrices: its variance is latent^2 sigma^2, and the floor.
Normal marginal_of(const at::Tensor& mean, const at::Tensor& latent, const at::Tensor& log_std) {
  const bool fits = mean.dim() >= 1 && latent.dim() == mean.dim() && log_std.dim() == 2 &&
                    latent.sizes().slice(0, latent.dim() - 1) == mean.sizes().slice(0, mean.dim() - 1) &&
                    log_std.size(0) == latent.size(-1) && log_std.size(1) == mean.size(-1);
  if (!fits) {
    throw ConfigError(concat("StateDependentNoise: mean ", mean.sizes(), ", latent ", latent.sizes(), " and log_std ",
                             log_std.sizes(),
                             " do not fit; they must be [..., size], [..., features] and [features, size]"));
  }
  const at::Tensor variance = at::matmul(latent.square(), (log_std * 2).exp());
  return Normal(mean, (variance + StateDependentNoise::kVarianceFloor).log() * 0.5);
}

}  // namespace

StateDependentNoise::StateDependentNoise(const at::Tensor& mean, const at::Tensor& latent, const at::Tensor& log_std)
    : latent_(latent), log_std_(log_std), normal_(marginal_of(mean, latent, log_std)) {}

at::Tensor StateDependentNoise::kl(const Distribution& other) const {
  const auto* that = dynamic_cast<const StateDependentNoise*>(&other);
  if (that == nullptr) throw ConfigError(concat("KL divergence of a StateDependentNoise and a ", other.family()));
  return normal_.kl_to(that->normal_);
}

// One matrix for all rows is a product of matrices; a matrix for each row is a product for each row.
at::Tensor StateDependentNoise::sample_with(const at::Tensor& matrices) const {
  at::NoGradGuard no_grad;
  const at::Tensor& mean = normal_.mean();
  if (matrices.sizes() == log_std_.sizes()) return mean + at::matmul(latent_, matrices);
  const bool fits = mean.dim() == 2 && matrices.dim() == 3 && matrices.size(0) == mean.size(0) &&
                    matrices.sizes().slice(1) == log_std_.sizes();
  if (!fits) {
    throw ConfigError(concat("StateDependentNoise: noise matrices ", matrices.sizes(), " do not fit mean ",
                             mean.sizes(), " and log_std ", log_std_.sizes()));
  }
  return mean + at::bmm(latent_.unsqueeze(1), matrices).squeeze(1);
}

at::Tensor draw_noise_matrices(const at::Tensor& log_std, std::int64_t count, at::Generator generator) {
  if (log_std.dim() != 2 || count < 0) {
    throw ConfigError(concat("noise matrices: ", count, " of log_std ", log_std.sizes(), "; must be [features, size]"));
  }
  at::NoGradGuard no_grad;
  return log_std.exp() *
         at::randn({count, log_std.size(0), log_std.size(1)}, generator, log_std.options().requires_grad(false));
}

}  // namespace tandem::model
