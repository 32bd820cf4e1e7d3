// model/state_dependent_noise.h: generalised state-dependent exploration, gSDE (Raffin, Kober, Stulp 2021, "Smooth
// Exploration for Robotic Reinforcement Learning").
//
// The noise of an action is a linear function of the policy's last hidden features z(s): a = mean(s) + z(s) W with
// W[i,j] ~ Normal(0, sigma[i,j]^2). W is drawn per environment and held for several steps, so the noise changes
// smoothly with the state instead of jumping at every step. Seen over all W, the action is
//   Normal(mean(s), sqrt(z(s)^2 sigma^2 + 1e-6)),
// and log_prob, entropy and kl are those of that Normal, as in the paper and in stable-baselines3.
#pragma once
#include <cstdint>

#include "tandem/model/distribution/normal.h"

namespace tandem::model {

/// Actions are [..., size], unbounded.
class StateDependentNoise final : public Distribution {
 public:
  /// Added to the variance, so that features of zero leave a proper density.
  static constexpr double kVarianceFloor = 1e-6;

  /// `mean` [..., size]; `latent` [..., features]; `log_std` [features, size], the logarithm of sigma. Detach `latent`
  /// (as stable-baselines3 does by default) so that exploration does not shape the features.
  StateDependentNoise(const at::Tensor& mean, const at::Tensor& latent, const at::Tensor& log_std);

  [[nodiscard]] const char* family() const override { return "StateDependentNoise"; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const override { return {normal_.mean(), latent_, log_std_}; }
  /// With a W of its own for each row: right in distribution, but not correlated over time; see sample_with().
  [[nodiscard]] at::Tensor sample(at::Generator generator) const override {
    return normal_.sample(std::move(generator));
  }
  [[nodiscard]] at::Tensor mode() const override { return normal_.mode(); }
  [[nodiscard]] at::Tensor log_prob(const at::Tensor& actions) const override { return normal_.log_prob(actions); }
  [[nodiscard]] at::Tensor entropy() const override { return normal_.entropy(); }
  [[nodiscard]] at::Tensor kl(const Distribution& other) const override;
  [[nodiscard]] Draw draw_with_gradient(at::Generator generator) const override {
    return normal_.draw_with_gradient(std::move(generator));
  }

  /// The action under noise matrices that the caller holds: mean + z W, without gradients. `matrices` is [rows,
  /// features, size] for parameters with one batch dimension [rows, ...], or [features, size], the same W for every
  /// row.
  [[nodiscard]] at::Tensor sample_with(const at::Tensor& matrices) const;

  /// The Normal that this is, seen over all noise matrices.
  [[nodiscard]] const Normal& marginal() const { return normal_; }

 private:
  at::Tensor latent_, log_std_;
  Normal normal_;
};

/// One W for each of `count` environments: [count, features, size]. Draw anew at the start of an episode and every so
/// many steps (stable-baselines3's sde_sample_freq), and after log_std has changed.
[[nodiscard]] at::Tensor draw_noise_matrices(const at::Tensor& log_std, std::int64_t count, at::Generator generator);

}  // namespace tandem::model
