#include "tandem/rl/algo/fused_rows.h"

#include <variant>

namespace tandem::rl {

template <typename Real>
FusedRows<Real>::FusedRows(const ActorCritic& policy) : discrete_(!std::holds_alternative<Box>(policy.spec().action)) {
  for (const Leaf& leaf : policy.spec().observation) leaf_bytes_.push_back(leaf.bytes());
  leaves_.resize(leaf_bytes_.size());
}

template <typename Real>
void FusedRows<Real>::begin(const ActedRows& rows) {
  TANDEM_CHECK(rows.observation.size() == leaf_bytes_.size(), rows.observation.size(), " leaves of ",
               leaf_bytes_.size());
  for (std::size_t leaf = 0; leaf < leaf_bytes_.size(); ++leaf) {
    const at::Tensor& values = rows.observation[leaf];
    TANDEM_CHECK(values.is_cpu() && values.is_contiguous() &&
                     values.nbytes() == static_cast<std::size_t>(values.size(0)) * leaf_bytes_[leaf],
                 "leaf ", leaf, " of the observations is ", values.scalar_type(), " ", values.sizes());
  }
  observation_ = &rows.observation;
  options_ = discrete_ ? memory_of<std::int64_t>(rows.action, "action") : nullptr;
  components_ = discrete_ ? nullptr : memory_of<Real>(rows.action, "action");
  mask_ = rows.action_mask.defined() ? memory_of<std::uint8_t>(rows.action_mask, "action_mask") : nullptr;
  mask_size_ = mask_ != nullptr ? rows.action_mask.size(1) : 0;
}

// Rows come one by one, since a minibatch picks them in any order.
template <typename Real>
void FusedRows<Real>::take_action(std::int64_t row, ActionGradient<Real>& actions, std::int64_t i,
                                  std::int64_t draw) const {
  if (options_ != nullptr) {
    actions.take(i, options_ + row * actions.action_size());
  } else {
    actions.take(i, components_ + row * actions.action_size(), draw);
  }
  if (mask_ != nullptr) actions.allow(i, mask_ + row * mask_size_);
}

// Rows of a leaf follow each other without gaps, which begin() has checked.
template <typename Real>
std::span<const std::byte* const> FusedRows<Real>::leaves_of(std::int64_t row) {
  for (std::size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    leaves_[leaf] = static_cast<const std::byte*>((*observation_)[leaf].const_data_ptr()) +
                    static_cast<std::size_t>(row) * leaf_bytes_[leaf];
  }
  return leaves_;
}

template class FusedRows<float>;
template class FusedRows<double>;

}  // namespace tandem::rl
