#include "tandem/rl/algo/fused_block.h"

#include "tandem/base/text.h"
#include "tandem/rl/algo/fused_sequences.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {

namespace {

// Why a policy of this class has none, whatever its parameters are.
std::string why_not_of_its_kind(const ActorCritic& policy) {
  const auto* mlp = dynamic_cast<const MlpPolicy*>(&policy);
  const auto* recurrent = dynamic_cast<const RecurrentPolicy*>(&policy);
  if (mlp == nullptr && recurrent == nullptr) return "the policy is no MLP policy";
  if (recurrent != nullptr && recurrent->has_torso()) return "the policy has a memory behind a torso for images";
  if (recurrent != nullptr && !FusedSequences<float>::has(policy.family()))
    return concat("there are none for ", name_of(policy.family()), " actions of policies that remember");
  return "";
}

}  // namespace

// The first reason found is told; the order goes from the kind of policy to its single parameters.
std::string why_not_fused(const ActorCritic& policy) {
  if (std::string why = why_not_of_its_kind(policy); !why.empty()) return why;
  for (const auto& parameter : policy.named_parameters()) {
    const at::Tensor& tensor = parameter.value();
    if (!tensor.is_cpu()) return concat("the policy lies on ", tensor.device().str());
    if (tensor.scalar_type() != at::kFloat) return concat(parameter.key(), " is ", tensor.scalar_type());
    if (!tensor.requires_grad()) return concat(parameter.key(), " is frozen");
  }
  return "";
}

template <typename Real>
FusedBlock<Real>::FusedBlock(const MlpPolicy& policy, InstructionSet set, Compute compute)
    : rows_(policy),
      network_(policy, set, compute),
      actions_(policy, policy.log_std(), set),
      head_size_(head_size(policy.spec().action)),
      divergence_(head_size_) {}

template <typename Real>
void FusedBlock<Real>::begin(const ActedRows& rows) {
  rows_.begin(rows);
  network_.begin();
  actions_.begin();
}

template <typename Real>
void FusedBlock<Real>::take(std::int64_t i, std::int64_t row, std::int64_t draw) {
  rows_.take_action(row, actions_, i, draw);
  if (reference_ != nullptr) divergence_.refer(i, reference_ + row * head_size_);
  take_observation(i, row);
}

template <typename Real>
void FusedBlock<Real>::take_observation(std::int64_t i, std::int64_t row) {
  network_.take(i, rows_.leaves_of(row));
}

template <typename Real>
void FusedBlock<Real>::forward(std::int64_t samples) {
  network_.forward(samples);
  actions_.forward(network_.head(), network_.latent(), samples);
  if (reference_ != nullptr) divergence_.measure(network_.head(), samples);
}

template <typename Real>
void FusedBlock<Real>::describe(std::int64_t i, Real* to) {
  for (std::int64_t o = 0; o < head_size_; ++o) to[o] = network_.head()[o * kBlock + i];
}

template <typename Real>
void FusedBlock<Real>::backward(std::int64_t samples) {
  Real* value = network_.value();
  for (std::int64_t i = samples; i < padded(samples); ++i) of_log_prob_[i] = of_entropy_[i] = value[i] = 0;
  actions_.backward(network_.head(), of_log_prob_, of_entropy_);
  if (reference_ != nullptr) divergence_.add(network_.head(), of_divergence_, samples);
  network_.backward();
}

template class FusedBlock<float>;
template class FusedBlock<double>;

}  // namespace tandem::rl
