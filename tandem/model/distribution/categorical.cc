#include "tandem/model/distribution/categorical.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The mask as booleans, true where a choice is excluded, after its dtype and shape were checked. On the CPU also that
// each row allows a choice; looking at a tensor on another device would wait for it.
at::Tensor excluded_by(const at::Tensor& mask, const at::Tensor& logits) {
  if (mask.scalar_type() != at::kBool && mask.scalar_type() != at::kByte) {
    throw ConfigError(concat("action mask: dtype is ", mask.scalar_type(), ", must be bool or uint8"));
  }
  if (mask.dim() < 1 || mask.size(-1) != logits.size(-1) || !at::is_expandable_to(mask.sizes(), logits.sizes())) {
    throw ConfigError(concat("action mask of shape ", mask.sizes(), " does not fit logits of shape ", logits.sizes()));
  }
  at::Tensor excluded = mask == 0;
  if (excluded.is_cpu() && excluded.all(-1).any().item<bool>()) {
    throw ConfigError(concat("action mask of shape ", mask.sizes(), " has a row that allows none of its ",
                             mask.size(-1), " choices; an environment must always leave one"));
  }
  return excluded;
}

}  // namespace

// Excluded logits become minus infinity before the softmax, so they get no probability and no gradient.
Categorical::Categorical(const at::Tensor& logits, const at::Tensor& mask) : logits_(logits) {
  if (logits.dim() < 1 || logits.size(-1) < 1 || !logits.is_floating_point()) {
    throw ConfigError(concat("Categorical: logits must be floating point [..., n] with n >= 1, not ",
                             logits.scalar_type(), " ", logits.sizes()));
  }
  if (mask.defined()) excluded_ = excluded_by(mask, logits);
  log_probs_ = at::log_softmax(excluded_.defined() ? logits.masked_fill(excluded_, -kInfinity) : logits, -1);
}

// multinomial() takes a matrix, hence the batch is flattened to rows and back.
at::Tensor Categorical::sample(at::Generator generator) const {
  at::NoGradGuard no_grad;
  const at::Tensor rows = log_probs_.exp().reshape({-1, log_probs_.size(-1)});
  return at::multinomial(rows, 1, /*replacement=*/true, generator)
      .reshape(log_probs_.sizes().slice(0, log_probs_.dim() - 1));
}

at::Tensor Categorical::mode() const { return log_probs_.argmax(-1); }

// Actions come as [...] or as [..., 1].
at::Tensor Categorical::log_prob(const at::Tensor& actions) const {
  if (!at::isIntegralType(actions.scalar_type(), /*includeBool=*/false)) {
    throw ConfigError(concat("Categorical: actions must be integers, not ", actions.scalar_type()));
  }
  const at::IntArrayRef batch = log_probs_.sizes().slice(0, log_probs_.dim() - 1);
  at::Tensor index;
  if (actions.sizes() == batch) {
    index = actions.unsqueeze(-1);
  } else if (actions.dim() == log_probs_.dim() && actions.size(-1) == 1 &&
             actions.sizes().slice(0, batch.size()) == batch) {
    index = actions;
  } else {
    throw ConfigError(concat("Categorical: actions of shape ", actions.sizes(), " do not fit logits of shape ",
                             log_probs_.sizes(), "; they must be ", batch));
  }
  return pick(log_probs_, index.to(at::kLong)).squeeze(-1);
}

at::Tensor Categorical::finite_log_probs() const {
  return excluded_.defined() ? log_probs_.masked_fill(excluded_, 0) : log_probs_;
}

at::Tensor Categorical::entropy() const { return -(log_probs_.exp() * finite_log_probs()).sum(-1); }

at::Tensor Categorical::kl(const Distribution& other) const {
  const auto* that = dynamic_cast<const Categorical*>(&other);
  if (that == nullptr) throw ConfigError(concat("KL divergence of a Categorical and a ", other.family()));
  at::Tensor difference = log_probs_ - that->log_probs_;
  // Choices that this one excludes add nothing. They are filled before the product, since 0 * NaN would also poison the
  // gradient.
  if (excluded_.defined()) difference = difference.masked_fill(excluded_, 0);
  return (log_probs_.exp() * difference).sum(-1);
}

at::Tensor pick(const at::Tensor& rows, const at::Tensor& index) {
  return rows.is_cpu() ? rows.gather(-1, index) : pick_by_mask(rows, index);
}

// All other options become zero, so the sum is the one number, exactly.
at::Tensor pick_by_mask(const at::Tensor& rows, const at::Tensor& index) {
  const at::Tensor others = at::arange(rows.size(-1), index.options()) != index;
  return rows.masked_fill(others, 0).sum(-1, /*keepdim=*/true);
}

}  // namespace tandem::model
