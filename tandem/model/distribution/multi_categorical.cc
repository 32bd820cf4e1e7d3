#include "tandem/model/distribution/multi_categorical.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

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

MultiCategorical::MultiCategorical(const at::Tensor& logits, std::vector<std::int64_t> nvec, const at::Tensor& mask)
    : logits_(logits), nvec_(std::move(nvec)), choices_(side_by_side(logits, nvec_, mask)) {}

at::Tensor MultiCategorical::log_prob(const at::Tensor& actions) const {
  const auto choices = static_cast<std::int64_t>(nvec_.size());
  if (actions.dim() != logits_.dim() || actions.size(-1) != choices) {
    throw ConfigError(concat("MultiCategorical: actions of shape ", actions.sizes(), " do not fit logits of shape ",
                             logits_.sizes(), " for ", choices, " choices"));
  }
  return choices_.log_prob(actions).sum(-1);
}

at::Tensor MultiCategorical::kl(const Distribution& other) const {
  const auto* that = dynamic_cast<const MultiCategorical*>(&other);
  if (that == nullptr) throw ConfigError(concat("KL divergence of a MultiCategorical and a ", other.family()));
  if (that->nvec_ != nvec_) {
    throw ConfigError(concat("KL divergence of choices of ", at::IntArrayRef(nvec_), " and of ",
                             at::IntArrayRef(that->nvec_), " options"));
  }
  return choices_.kl(that->choices_).sum(-1);
}

}  // namespace tandem::model
