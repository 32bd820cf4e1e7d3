#include "tandem/model/distribution/categorical.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <numeric>

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

// Where option j of choice i lies in the concatenated logits; option 0 stands in for those that a choice does not have.
struct Padding {
  at::Tensor index;   // [choices * largest]
  at::Tensor exists;  // [choices * largest], bool
};

// Choices with fewer options than the largest one are filled up with options that do not exist.
Padding pad(const std::vector<std::int64_t>& nvec, std::int64_t largest, at::Device device) {
  std::vector<std::int64_t> index;
  std::vector<std::uint8_t> exists;
  std::int64_t begin = 0;
  for (const std::int64_t n : nvec) {
    for (std::int64_t j = 0; j < largest; ++j) {
      index.push_back(begin + (j < n ? j : 0));
      exists.push_back(j < n ? 1 : 0);
    }
    begin += n;
  }
  return {at::tensor(index, at::kLong).to(device), at::tensor(exists, at::kByte).to(at::kBool).to(device)};
}

// All choices as one Categorical of shape [..., choices, largest]: padded options are masked. Where all choices are
// alike a view of the logits is enough.
Categorical side_by_side(const at::Tensor& logits, const std::vector<std::int64_t>& nvec, const at::Tensor& mask) {
  if (nvec.empty() || *std::min_element(nvec.begin(), nvec.end()) < 1) {
    throw ConfigError("MultiCategorical: needs at least one choice, and each at least one option");
  }
  const std::int64_t total = std::accumulate(nvec.begin(), nvec.end(), std::int64_t{0});
  if (logits.dim() < 1 || logits.size(-1) != total) {
    throw ConfigError(concat("MultiCategorical: logits of shape ", logits.sizes(), " for choices of ",
                             at::IntArrayRef(nvec), " options; the last dimension must be their sum ", total));
  }
  if (mask.defined() && (mask.dim() < 1 || mask.size(-1) != total)) {
    throw ConfigError(concat("action mask of shape ", mask.sizes(), " does not fit logits of shape ", logits.sizes()));
  }
  const auto largest = *std::max_element(nvec.begin(), nvec.end());
  const auto split = [&](const at::Tensor& flat) {
    return flat.unflatten(-1, {static_cast<std::int64_t>(nvec.size()), largest});
  };
  if (total == largest * static_cast<std::int64_t>(nvec.size())) {  // all alike: nothing to pad
    return Categorical(split(logits), mask.defined() ? split(mask) : mask);
  }
  const Padding padding = pad(nvec, largest, logits.device());
  at::Tensor allowed = padding.exists;
  if (mask.defined()) allowed = (mask.index_select(-1, padding.index) != 0).logical_and(allowed);
  return Categorical(split(logits.index_select(-1, padding.index)), split(allowed));
}

}  // namespace

// Excluded logits become minus infinity before the softmax, so they get no probability and no gradient.
Categorical::Categorical(const at::Tensor& logits, const at::Tensor& mask)
    : logits_(logits), has_mask_(mask.defined()) {
  if (logits.dim() < 1 || logits.size(-1) < 1 || !logits.is_floating_point()) {
    throw ConfigError(concat("Categorical: logits must be floating point [..., n] with n >= 1, not ",
                             logits.scalar_type(), " ", logits.sizes()));
  }
  log_probs_ = at::log_softmax(mask.defined() ? logits.masked_fill(excluded_by(mask, logits), -kInfinity) : logits, -1);
}

// multinomial() takes a matrix, hence the batch is flattened to rows and back.
at::Tensor Categorical::sample(at::Generator generator) const {
  at::NoGradGuard no_grad;
  const at::Device here = log_probs_.device(), drawn_on = generator.defined() ? generator.device() : here;
  const at::Tensor rows = log_probs_.exp().reshape({-1, log_probs_.size(-1)}).to(drawn_on);
  return at::multinomial(rows, 1, /*replacement=*/true, generator)
      .to(here)
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

// By the mask, or by a logit of -inf.
at::Tensor Categorical::without_excluded(const at::Tensor& numbers) const {
  return numbers.masked_fill(log_probs_ == -kInfinity, 0);
}

// Autograd adds up the gradient of log_probs_ in the reverse order of these operations, so that order decides its last
// bits where other losses come in, too. The probabilities come first, as they did before -inf was filled here.
at::Tensor Categorical::entropy() const {
  if (has_mask_) return -(log_probs_.exp() * without_excluded(log_probs_)).sum(-1);
  const at::Tensor probabilities = log_probs_.exp();
  return -(probabilities * without_excluded(log_probs_)).sum(-1);
}

at::Tensor Categorical::kl(const Distribution& other) const {
  const at::Tensor difference = without_excluded(log_probs_ - of_this_family<Categorical>(other).log_probs_);
  return (log_probs_.exp() * difference).sum(-1);
}

MultiCategorical::MultiCategorical(const at::Tensor& logits, std::vector<std::int64_t> nvec, const at::Tensor& mask)
    : Categorical(side_by_side(logits, nvec, mask)), flat_logits_(logits), nvec_(std::move(nvec)) {}

at::Tensor MultiCategorical::log_prob(const at::Tensor& actions) const {
  if (actions.dim() != flat_logits_.dim() || actions.size(-1) != std::ssize(nvec_)) {
    throw ConfigError(concat("MultiCategorical: actions of shape ", actions.sizes(), " do not fit logits of shape ",
                             flat_logits_.sizes(), " for ", nvec_.size(), " choices"));
  }
  return Categorical::log_prob(actions).sum(-1);
}

at::Tensor MultiCategorical::kl(const Distribution& other) const {
  if (const auto& that = of_this_family<MultiCategorical>(other); that.nvec_ != nvec_) {
    throw ConfigError(concat("KL divergence of choices of ", at::IntArrayRef(nvec_), " and of ",
                             at::IntArrayRef(that.nvec_), " options"));
  }
  return Categorical::kl(other).sum(-1);
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
