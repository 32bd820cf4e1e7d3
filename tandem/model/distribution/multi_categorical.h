// model/multi_categorical.h: several independent choices made together, with n[i] options for the i-th.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/model/distribution/categorical.h"

namespace tandem::model {

/// Actions are int64 [..., choices].
class MultiCategorical final : public Distribution {
 public:
  /// `logits` [..., sum of nvec]: the logits of choice 0, then of choice 1, ... `mask` likewise, as for Categorical;
  /// every single choice needs an allowed option.
  MultiCategorical(const at::Tensor& logits, std::vector<std::int64_t> nvec, const at::Tensor& mask = {});

  [[nodiscard]] const char* family() const override { return "MultiCategorical"; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const override { return {logits_}; }
  [[nodiscard]] at::Tensor sample(at::Generator generator) const override {
    return choices_.sample(std::move(generator));
  }
  [[nodiscard]] at::Tensor mode() const override { return choices_.mode(); }
  [[nodiscard]] at::Tensor log_prob(const at::Tensor& actions) const override;
  [[nodiscard]] at::Tensor entropy() const override { return choices_.entropy().sum(-1); }
  [[nodiscard]] at::Tensor kl(const Distribution& other) const override;

  [[nodiscard]] const std::vector<std::int64_t>& nvec() const { return nvec_; }

 private:
  at::Tensor logits_;
  std::vector<std::int64_t> nvec_;
  Categorical choices_;  // [..., choices, largest n]: shorter choices are padded with masked options
};

}  // namespace tandem::model
