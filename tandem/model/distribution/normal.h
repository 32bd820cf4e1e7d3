// model/normal.h: a real vector whose elements are independent and normal.
#pragma once
#include "tandem/model/distribution/distribution.h"

namespace tandem::model {

/// Actions are [..., size], unbounded: an environment's box bounds are applied by whoever steps it.
class Normal final : public Distribution {
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
  [[nodiscard]] at::Tensor kl(const Distribution& other) const override;
  [[nodiscard]] Draw draw_with_gradient(at::Generator generator) const override;

  [[nodiscard]] const at::Tensor& mean() const { return mean_; }
  [[nodiscard]] const at::Tensor& log_std() const { return log_std_; }

  /// Same as kl() for an operand known to be a Normal; other families built on one use it.
  [[nodiscard]] at::Tensor kl_to(const Normal& that) const;
  /// Actions alone, with gradients.
  [[nodiscard]] at::Tensor draw_actions(at::Generator generator) const;

 private:
  at::Tensor mean_, log_std_;
};

}  // namespace tandem::model
