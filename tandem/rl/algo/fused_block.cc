#include "tandem/rl/algo/fused_block.h"

#include <type_traits>

#include "tandem/base/text.h"

namespace tandem::rl {

// The first reason found is told; the order goes from the kind of policy to its single parameters.
std::string why_not_fused(const ActorCritic& policy) {
  const auto* mlp = dynamic_cast<const MlpPolicy*>(&policy);
  if (mlp == nullptr) return "the policy is no MLP policy";
  if (mlp->has_torso()) return "the policy has a torso for images";
  for (const auto& parameter : policy.named_parameters()) {
    const at::Tensor& tensor = parameter.value();
    if (!tensor.is_cpu()) return concat("the policy lies on ", tensor.device().str());
    if (tensor.scalar_type() != at::kFloat) return concat(parameter.key(), " is ", tensor.scalar_type());
    if (!tensor.requires_grad()) return concat(parameter.key(), " is frozen");
  }
  return "";
}

template <typename Real>
FusedBlock<Real>::FusedBlock(const MlpPolicy& policy, InstructionSet set)
    : policy_(policy),
      network_(policy, set),
      actions_(policy, set),
      features_(static_cast<std::size_t>(std::is_same_v<Real, float> ? 0 : policy.features().size())) {
  for (const Leaf& leaf : policy.spec().observation) leaf_bytes_.push_back(leaf.bytes());
  leaves_.resize(leaf_bytes_.size());
}

template <typename Real>
void FusedBlock<Real>::begin(const ActedRows& rows) {
  TANDEM_CHECK(rows.observation.size() == leaf_bytes_.size(), rows.observation.size(), " leaves of ",
               leaf_bytes_.size());
  for (std::size_t leaf = 0; leaf < leaf_bytes_.size(); ++leaf) {
    const at::Tensor& values = rows.observation[leaf];
    TANDEM_CHECK(values.is_cpu() && values.is_contiguous() &&
                     values.nbytes() == static_cast<std::size_t>(values.size(0)) * leaf_bytes_[leaf],
                 "leaf ", leaf, " of the observations is ", values.scalar_type(), " ", values.sizes());
  }
  observation_ = &rows.observation;
  const bool discrete = !policy_.log_std().defined();
  options_ = discrete ? memory_of<std::int64_t>(rows.action, "action") : nullptr;
  components_ = discrete ? nullptr : memory_of<Real>(rows.action, "action");
  mask_ = rows.action_mask.defined() ? memory_of<std::uint8_t>(rows.action_mask, "action_mask") : nullptr;
  mask_size_ = mask_ != nullptr ? rows.action_mask.size(1) : 0;
  network_.begin();
  actions_.begin();
}

// Rows come one by one, since a minibatch picks them in any order.
template <typename Real>
void FusedBlock<Real>::take(std::int64_t i, std::int64_t row, std::int64_t draw) {
  if (options_ != nullptr) {
    actions_.take(i, options_ + row * actions_.action_size());
  } else {
    actions_.take(i, components_ + row * actions_.action_size(), draw);
  }
  if (mask_ != nullptr) actions_.allow(i, mask_ + row * mask_size_);
  take_observation(i, row);
}

template <typename Real>
void FusedBlock<Real>::take_observation(std::int64_t i, std::int64_t row) {
  for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    leaves_[leaf] = static_cast<const std::byte*>((*observation_)[leaf].const_data_ptr()) +
                    static_cast<std::size_t>(row) * leaf_bytes_[leaf];
  }
  // Features are computed in float; only tests with double need the copy.
  if constexpr (std::is_same_v<Real, float>) {
    policy_.features().encode_rows(leaves_, 1, network_.sample(i));
  } else {
    policy_.features().encode_rows(leaves_, 1, features_.data());
    std::copy(features_.begin(), features_.end(), network_.sample(i));
  }
}

template <typename Real>
void FusedBlock<Real>::forward(std::int64_t samples) {
  network_.forward(samples);
  actions_.forward(network_.head(), network_.latent(), samples);
}

template <typename Real>
void FusedBlock<Real>::backward(std::int64_t samples) {
  Real* value = network_.value();
  for (std::int64_t i = samples; i < padded(samples); ++i) of_log_prob_[i] = of_entropy_[i] = value[i] = 0;
  actions_.backward(network_.head(), of_log_prob_, of_entropy_);
  network_.backward();
}

template class FusedBlock<float>;
template class FusedBlock<double>;

}  // namespace tandem::rl
