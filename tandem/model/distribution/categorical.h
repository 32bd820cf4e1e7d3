// model/categorical.h: one of n choices, or several such choices, from unnormalised log-probabilities.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/model/distribution/distribution.h"

namespace tandem::model {

/// Actions are int64 of the batch's shape [...]; [..., 1] is taken as well, since environments store them so.
class Categorical : public Distribution {
 public:
  /// `logits` [..., n]. `mask` [..., n] or one that broadcasts to it, bool or uint8, non-zero where a choice is
  /// allowed; undefined: all are. Masked choices have probability 0, log_prob -inf and add nothing to entropy or
  /// gradients (Huang and Ontanon 2022, "A Closer Look at Invalid Action Masking"). A logit of -inf excludes a choice
  /// in the same way. Throws ConfigError when a row of a mask on the CPU allows nothing; on other devices, where
  /// looking would wait for the device, such a row gives NaN, as a row does whose logits are all -inf.
  explicit Categorical(const at::Tensor& logits, const at::Tensor& mask = {});

  [[nodiscard]] const char* family() const override { return "Categorical"; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const override { return {logits_}; }
  [[nodiscard]] at::Tensor sample(at::Generator generator) const override;
  [[nodiscard]] at::Tensor mode() const override;
  [[nodiscard]] at::Tensor log_prob(const at::Tensor& actions) const override;
  [[nodiscard]] at::Tensor entropy() const override;
  [[nodiscard]] at::Tensor kl(const Distribution& other) const override;

 private:
  /// `numbers` [..., n] with 0 for choices of probability 0: these add nothing to sums, not even to gradients, where a
  /// product of 0 and an infinite number would be NaN.
  [[nodiscard]] at::Tensor without_excluded(const at::Tensor& numbers) const;

  at::Tensor logits_, log_probs_;
  bool has_mask_;
};

/// Several independent choices made together, with n[i] options for the i-th. Actions are int64 [..., choices].
///
/// The base is all choices side by side, [..., choices, largest n]: shorter ones are padded with masked options.
class MultiCategorical final : public Categorical {
 public:
  /// `logits` [..., sum of nvec]: the logits of choice 0, then of choice 1, ... `mask` likewise, as for Categorical;
  /// every single choice needs an allowed option.
  MultiCategorical(const at::Tensor& logits, std::vector<std::int64_t> nvec, const at::Tensor& mask = {});

  [[nodiscard]] const char* family() const override { return "MultiCategorical"; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const override { return {flat_logits_}; }
  [[nodiscard]] at::Tensor log_prob(const at::Tensor& actions) const override;
  [[nodiscard]] at::Tensor entropy() const override { return Categorical::entropy().sum(-1); }
  [[nodiscard]] at::Tensor kl(const Distribution& other) const override;

 private:
  at::Tensor flat_logits_;
  std::vector<std::int64_t> nvec_;
};

/// `rows` [..., n] at `index` [..., 1], int64 in 0 .. n-1: [..., 1]. On the CPU by gather(), which throws for an index
/// out of range; on other devices by pick_by_mask().
[[nodiscard]] at::Tensor pick(const at::Tensor& rows, const at::Tensor& index);

/// pick() with the same bits, also of the gradient, by operations of which none adds in an order of its own, waits for
/// the device or copies from the host. The gradient of gather() does one or the other on a CUDA device. An index out of
/// range gives 0.
[[nodiscard]] at::Tensor pick_by_mask(const at::Tensor& rows, const at::Tensor& index);

}  // namespace tandem::model
