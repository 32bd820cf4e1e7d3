// model/normal.h: a real vector whose elements are independent and normal, and the families that are built on it.
#pragma once
#include "tandem/model/distribution/distribution.h"

namespace tandem::model {

/// Actions are [..., size], unbounded: an environment's box bounds are applied by whoever steps it.
class Normal : public Distribution {
 public:
  /// `mean` [..., size]; `log_std`, the natural logarithm of the standard deviation, is [size] (the same in every
  /// state) or anything else that broadcasts to the shape of `mean`, with the same last dimension.
  Normal(const at::Tensor& mean, const at::Tensor& log_std);

  [[nodiscard]] const char* family() const override { return "Normal"; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const override { return {mean_, log_std_}; }
  [[nodiscard]] at::Tensor sample(at::Generator generator) const override;
  [[nodiscard]] at::Tensor mode() const override { return mean_.detach(); }
  [[nodiscard]] at::Tensor log_prob(const at::Tensor& actions) const override;
  [[nodiscard]] at::Tensor entropy() const override;
  /// The divergence of two families that are built on a Normal in the same way is that of their Normals, exactly.
  [[nodiscard]] at::Tensor kl(const Distribution& other) const override;
  [[nodiscard]] Draw draw_with_gradient(at::Generator generator) const override;

  [[nodiscard]] const at::Tensor& log_std() const { return log_std_; }

 protected:
  /// Actions alone, with gradients.
  [[nodiscard]] at::Tensor draw_actions(at::Generator generator) const;
  void check_shape(const at::Tensor& actions) const;

  at::Tensor mean_, log_std_;
};

/// tanh of a Normal, for actions [..., size] within (-1, 1) (Haarnoja et al. 2018, appendix C); whoever steps the
/// environment scales them to its bounds. The base is the Normal of u, before tanh.
///
/// With a = tanh(u):  log p(a) = log p(u) - sum log(1 - tanh(u)^2), where each term is computed as
/// 2 (log 2 - u - softplus(-2u)), which neither cancels nor overflows.
///
/// Saturation: tanh rounds to +-1 for large |u| (above 9 in float32, 19 in float64), where the inverse is infinite.
/// sample() and log_prob() therefore both keep actions within +-limit(), the last numbers before +-1; so the log_prob
/// of a stored action is finite and always the same, but beyond |u| of about 8.7 (float32) no longer that of the
/// original u, and its gradient is that of the limit. Exactly the log_prob of a draw comes from draw_with_gradient(),
/// which never inverts.
class SquashedNormal final : public Normal {
 public:
  using Normal::Normal;

  [[nodiscard]] const char* family() const override { return "SquashedNormal"; }
  [[nodiscard]] at::Tensor sample(at::Generator generator) const override;
  /// tanh(mean), which is the median and not the peak of the density.
  [[nodiscard]] at::Tensor mode() const override;
  [[nodiscard]] at::Tensor log_prob(const at::Tensor& actions) const override;
  [[nodiscard]] bool has_entropy() const override { return false; }
  /// Throws ConfigError: there is no closed form.
  [[nodiscard]] at::Tensor entropy() const override;
  [[nodiscard]] Draw draw_with_gradient(at::Generator generator) const override;
  /// The draw that standard normal numbers give, which have the shape of the mean: for those who draw them elsewhere.
  [[nodiscard]] Draw draw_of(const at::Tensor& noise) const;

  /// The largest magnitude of an action: the number before 1 in `dtype` (float32 or float64).
  [[nodiscard]] static double limit(at::ScalarType dtype);

 private:
  // The density of tanh(u), without inverting it.
  [[nodiscard]] at::Tensor log_prob_before_squashing(const at::Tensor& u) const;
};

/// Generalised state-dependent exploration, gSDE (Raffin, Kober, Stulp 2021, "Smooth Exploration for Robotic
/// Reinforcement Learning"). Actions are [..., size], unbounded.
///
/// The noise of an action is a linear function of the policy's last hidden features z(s): a = mean(s) + z(s) W with
/// W[i,j] ~ Normal(0, sigma[i,j]^2). W is drawn per environment and held for several steps, so the noise changes
/// smoothly with the state instead of jumping at every step. The base is what this is, seen over all W:
///   Normal(mean(s), sqrt(z(s)^2 sigma^2 + 1e-6)).
/// Its log_prob, entropy and kl count, as in the paper and in stable-baselines3. Its sample() has a W of its own for
/// each row: right in distribution, but not correlated over time; sample_with_noise() (row_sampling.h) holds W.
class StateDependentNoise final : public Normal {
 public:
  /// Added to the variance, so that features of zero leave a proper density.
  static constexpr double kVarianceFloor = 1e-6;

  /// `mean` [..., size]; `latent` [..., features]; `log_std` [features, size], the logarithm of sigma. Detach `latent`
  /// (as stable-baselines3 does by default) so that exploration does not shape the features.
  StateDependentNoise(const at::Tensor& mean, const at::Tensor& latent, const at::Tensor& log_std);

  [[nodiscard]] const char* family() const override { return "StateDependentNoise"; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const override { return {mean_, latent_, log_sigma_}; }

 private:
  at::Tensor latent_, log_sigma_;
};

}  // namespace tandem::model
