#include "tandem/rl/algo/fused_ppo.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tandem/base/check.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// What the rows of a minibatch share.
struct Coefficients {
  double clip, value, value_clip, kl;  // value_clip < 0: none
  double mean, scale;                  // of advantages
};

// The policy's part of one row: adds its numbers and returns the derivative of the loss with respect to log pi(a|s).
double surrogate(double log_prob, double old_log_prob, double raw_advantage, const Coefficients& c, PpoSums& sums) {
  const double log_ratio = log_prob - old_log_prob, ratio = std::exp(log_ratio);
  const double advantage = (raw_advantage - c.mean) * c.scale;
  const double clipped = std::clamp(ratio, 1 - c.clip, 1 + c.clip);
  const double plain = advantage * ratio, limited = advantage * clipped;
  sums.policy_loss -= std::min(plain, limited);
  sums.approx_kl += ratio - 1 - log_ratio;
  sums.clipped += std::abs(ratio - 1) > c.clip ? 1 : 0;
  // Where the clipped term is the smaller one, the ratio does not count.
  const double clipped_slope = limited < plain ? 0.0 : -advantage * ratio;
  return c.kl > 0 ? clipped_slope + c.kl * (ratio - 1) : clipped_slope;
}

// The value's part of one row: adds the loss and returns its derivative.
double value_part(double value, double old_value, double target, const Coefficients& c, PpoSums& sums) {
  const double error = value - target, plain = error * error, change = value - old_value;
  if (c.value_clip >= 0 && std::abs(change) > c.value_clip) {
    const double near = old_value + std::clamp(change, -c.value_clip, c.value_clip);
    const double limited = (near - target) * (near - target);
    sums.value_loss += std::max(plain, limited);
    if (limited > plain) return 0;
  } else {
    sums.value_loss += plain;
  }
  return 2 * error * c.value;
}

template <typename T>
const T* numbers_of(const at::Tensor& column, const char* name) {
  TANDEM_CHECK(column.is_cpu() && column.is_contiguous() && column.scalar_type() == c10::CppTypeToScalarType<T>(),
               "column ", name, " is ", column.scalar_type(), " on ", column.device().str());
  return column.const_data_ptr<T>();
}

}  // namespace

std::string why_not_fused(const ActorCritic& policy) {
  if (dynamic_cast<const MlpPolicy*>(&policy) == nullptr) return "the policy is no MLP policy";
  if (!ActionGradient<float>::has(policy.family()))
    return concat("there are none for ", name_of(policy.family()), " actions");
  for (const auto& parameter : policy.named_parameters()) {
    const at::Tensor& tensor = parameter.value();
    if (!tensor.is_cpu()) return concat("the policy lies on ", tensor.device().str());
    if (tensor.scalar_type() != at::kFloat) return concat(parameter.key(), " is ", tensor.scalar_type());
    if (!tensor.requires_grad()) return concat(parameter.key(), " is frozen");
  }
  return "";
}

template <typename Real>
FusedPpo<Real>::FusedPpo(const MlpPolicy& policy, InstructionSet set)
    : policy_(policy),
      network_(policy, set),
      actions_(policy, set),
      features_(static_cast<std::size_t>(std::is_same_v<Real, float> ? 0 : policy.features().size())) {
  for (const Leaf& leaf : policy.spec().observation) leaf_bytes_.push_back(leaf.bytes());
  leaves_.resize(leaf_bytes_.size());
}

template <typename Real>
learner::WrittenLoss FusedPpo<Real>::run(const learner::ShardRows& rows, const PpoOptions& options,
                                         const PpoMinibatch& minibatch, PpoSums& sums) {
  if (rows.rows == 0) return {};  // of uneven fragments
  const PpoRows columns = ppo_rows(rows.columns, rows.states);
  require_leaves(columns.observation);
  network_.begin();
  actions_.begin();
  PpoSums mine{.rows = static_cast<double>(rows.rows)};
  for (std::int64_t first = 0; first < rows.rows; first += kBlock) {
    const std::int64_t samples = std::min(kBlock, rows.rows - first);
    gather(columns, rows, first, samples);
    network_.forward(samples);
    actions_.forward(network_.head(), samples);
    differentiate(options, minibatch, samples, mine);
    actions_.backward(network_.head(), of_log_prob_, of_entropy_);
    network_.backward();
  }
  network_.finish();
  actions_.finish();
  sums.add(mine);
  double loss = mine.policy_loss + options.value_coef * mine.value_loss - options.entropy_coef * mine.entropy;
  if (options.kl_coef > 0) loss += options.kl_coef * mine.approx_kl;
  // As a Real, so that a loss beyond its range is said to be one, and of which shard.
  return {.loss = static_cast<Real>(loss / mine.rows), .weight = mine.rows};
}

template <typename Real>
void FusedPpo<Real>::require_leaves(const Observation& observation) const {
  TANDEM_CHECK(observation.size() == leaf_bytes_.size(), observation.size(), " leaves of ", leaf_bytes_.size());
  for (std::size_t leaf = 0; leaf < observation.size(); ++leaf) {
    const at::Tensor& rows = observation[leaf];
    TANDEM_CHECK(rows.is_cpu() && rows.is_contiguous() &&
                     rows.nbytes() == static_cast<std::size_t>(rows.size(0)) * leaf_bytes_[leaf],
                 "leaf ", leaf, " of the observations is ", rows.scalar_type(), " ", rows.sizes());
  }
}

template <typename Real>
void FusedPpo<Real>::gather(const PpoRows& columns, const learner::ShardRows& rows, std::int64_t first,
                            std::int64_t samples) {
  const Real* log_prob = numbers_of<Real>(columns.log_prob, "log_prob");
  const Real* value = numbers_of<Real>(columns.value, "value");
  const Real* advantage = numbers_of<Real>(columns.advantage, "advantage");
  const Real* value_target = numbers_of<Real>(columns.value_target, "value_target");
  const bool discrete = policy_.family() != ActionFamily::kNormal;
  const auto* option = discrete ? numbers_of<std::int64_t>(columns.action, "action") : nullptr;
  const Real* component = discrete ? nullptr : numbers_of<Real>(columns.action, "action");
  const std::uint8_t* mask =
      columns.action_mask.defined() ? numbers_of<std::uint8_t>(columns.action_mask, "action_mask") : nullptr;
  const std::int64_t mask_size = mask != nullptr ? columns.action_mask.size(1) : 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t row = rows.row(first + i);
    old_log_prob_[i] = log_prob[row];
    old_value_[i] = value[row];
    advantage_[i] = advantage[row];
    value_target_[i] = value_target[row];
    if (discrete) {
      actions_.take(i, option + row * actions_.action_size());
    } else {
      actions_.take(i, component + row * actions_.action_size());
    }
    if (mask != nullptr) actions_.allow(i, mask + row * mask_size);
    gather_features(columns, row, network_.sample(i));
  }
}

template <typename Real>
void FusedPpo<Real>::gather_features(const PpoRows& columns, std::int64_t row, Real* features) {
  for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    leaves_[leaf] = static_cast<const std::byte*>(columns.observation[leaf].const_data_ptr()) +
                    static_cast<std::size_t>(row) * leaf_bytes_[leaf];
  }
  if constexpr (std::is_same_v<Real, float>) {
    policy_.features().encode_rows(leaves_, 1, features);
  } else {
    policy_.features().encode_rows(leaves_, 1, features_.data());
    std::copy(features_.begin(), features_.end(), features);
  }
}

// The loss of the block's rows, times their number, so that shards' gradients are sums.
template <typename Real>
void FusedPpo<Real>::differentiate(const PpoOptions& options, const PpoMinibatch& minibatch, std::int64_t samples,
                                   PpoSums& sums) {
  const Coefficients c{.clip = minibatch.clip_range,
                       .value = options.value_coef,
                       .value_clip = options.clip_range_value.value_or(-1.0),
                       .kl = options.kl_coef,
                       .mean = minibatch.advantage_mean,
                       .scale = minibatch.advantage_scale};
  Real* value = network_.value();
  for (std::int64_t i = 0; i < samples; ++i) {
    of_log_prob_[i] = static_cast<Real>(surrogate(actions_.log_prob()[i], old_log_prob_[i], advantage_[i], c, sums));
    of_entropy_[i] = static_cast<Real>(-options.entropy_coef);
    sums.entropy += actions_.entropy()[i];
    value[i] = static_cast<Real>(value_part(value[i], old_value_[i], value_target_[i], c, sums));
  }
  for (std::int64_t i = samples; i < padded(samples); ++i) of_log_prob_[i] = of_entropy_[i] = value[i] = 0;
}

template class FusedPpo<float>;
template class FusedPpo<double>;

}  // namespace tandem::rl
