// model/squashed_normal.h: tanh of a Normal, for actions within (-1, 1) (Haarnoja et al. 2018, appendix C).
//
// With u ~ Normal and a = tanh(u):  log p(a) = log p(u) - sum log(1 - tanh(u)^2), where each term is computed as
// 2 (log 2 - u - softplus(-2u)), which neither cancels nor overflows.
#pragma once
#include "tandem/model/distribution/normal.h"

namespace tandem::model {

/// Actions are [..., size] within (-1, 1); whoever steps the environment scales them to its bounds.
///
/// Saturation: tanh rounds to +-1 for large |u| (above 9 in float32, 19 in float64), where the inverse is infinite.
/// sample() and log_prob() therefore both keep actions within +-limit(), the last numbers before +-1; so the log_prob
/// of a stored action is finite and always the same, but beyond |u| of about 8.7 (float32) no longer that of the
/// original u, and its gradient is that of the limit. Exactly the log_prob of a draw comes from draw_with_gradient(),
/// which never inverts.
class SquashedNormal final : public Distribution {
 public:
  /// Mean and log_std of u, as for Normal.
  SquashedNormal(const at::Tensor& mean, const at::Tensor& log_std) : normal_(mean, log_std) {}

  [[nodiscard]] const char* family() const override { return "SquashedNormal"; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const override { return normal_.parameters(); }
  [[nodiscard]] at::Tensor sample(at::Generator generator) const override;
  /// tanh(mean), which is the median and not the peak of the density.
  [[nodiscard]] at::Tensor mode() const override;
  [[nodiscard]] at::Tensor log_prob(const at::Tensor& actions) const override;
  [[nodiscard]] bool has_entropy() const override { return false; }
  /// Throws ConfigError: there is no closed form.
  [[nodiscard]] at::Tensor entropy() const override;
  /// Exact: the divergence of the two normals, since both are squashed by the same function.
  [[nodiscard]] at::Tensor kl(const Distribution& other) const override;
  [[nodiscard]] Draw draw_with_gradient(at::Generator generator) const override;

  /// The density of tanh(u), without inverting it.
  [[nodiscard]] at::Tensor log_prob_before_squashing(const at::Tensor& u) const;
  /// The largest magnitude of an action: the number before 1 in `dtype` (float32 or float64).
  [[nodiscard]] static double limit(at::ScalarType dtype);

 private:
  Normal normal_;
};

}  // namespace tandem::model
