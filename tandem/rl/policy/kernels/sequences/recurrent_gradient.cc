#include "tandem/rl/policy/kernels/sequences/recurrent_gradient.h"

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/rl/policy/kernels/block_net.h"

namespace tandem::rl {
namespace {

template <typename Real>
RowLayer<Real> layer_of(const Mlp& head, InstructionSet set) {
  const torch::nn::Linear& linear = head.layers().back();
  return RowLayer<Real>(linear->weight, linear->bias, 1, block_kernels<Real>(set));
}

}  // namespace

template <typename Real>
RecurrentGradient<Real>::RecurrentGradient(const RecurrentPolicy& policy, InstructionSet set)
    : feature_stride_(row_stride(policy.features().size())),
      action_(layer_of<Real>(policy.action_head(), set)),
      value_(layer_of<Real>(policy.value_head(), set)) {
  TANDEM_CHECK(!policy.has_torso(), "these loops have no convolutions");
  branches_.reserve(policy.branches().size());
  for (const auto& branch : policy.branches()) branches_.emplace_back(*branch, set);
}

template <typename Real>
void RecurrentGradient<Real>::begin() {
  for (SequenceBranch<Real>& branch : branches_) branch.begin();
  action_.begin();
  value_.begin();
}

template <typename Real>
void RecurrentGradient<Real>::reserve(std::int64_t rows, std::int64_t sequences) {
  for (SequenceBranch<Real>& branch : branches_) branch.reserve(rows, sequences);
  if (rows <= reserved_rows_) return;
  reserved_rows_ = rows;
  features_ = AlignedArray<Real>(rows * feature_stride_);
  head_ = AlignedArray<Real>(padded(rows) * head().stride);
  values_ = AlignedArray<Real>(rows * value().stride);
}

template <typename Real>
std::int64_t RecurrentGradient<Real>::state_size() const {
  std::int64_t size = 0;
  for (const SequenceBranch<Real>& branch : branches_) size += branch.state_size();
  return size;
}

// Each branch has its columns, in their order.
template <typename Real>
void RecurrentGradient<Real>::set_state(std::int64_t s, const Real* state) {
  for (SequenceBranch<Real>& branch : branches_) {
    branch.set_state(s, state);
    state += branch.state_size();
  }
}

// Rows of the head behind the last one are read and written in whole panels; what they hold must be finite.
template <typename Real>
void RecurrentGradient<Real>::forward(const SequenceBlock<Real>& block) {
  for (SequenceBranch<Real>& branch : branches_) branch.forward(features(), block);
  const std::int64_t rows = block.rows();
  action_.forward(branches_.front().output(), rows, head());
  std::fill_n(head().row(rows), (padded(rows) - rows) * head().stride, Real{0});
  value_.forward(branches_.back().output(), rows, value());
}

// A branch that is both the actor's and the critic's gets the derivatives of the two: the actor's are written, the
// critic's are added.
template <typename Real>
void RecurrentGradient<Real>::backward(const SequenceBlock<Real>& block) {
  using Start = typename Product<Real>::Start;
  const std::int64_t rows = block.rows();
  const Rows<const Real> of_head{head().data, head().stride}, of_value{value().data, value().stride};
  SequenceBranch<Real>&actor = branches_.front(), &critic = branches_.back();
  action_.add(actor.output(), of_head, rows);
  value_.add(critic.output(), of_value, rows);
  action_.backward(of_head, rows, actor.slopes(), Start::kZero);
  value_.backward(of_value, rows, critic.slopes(), branches_.size() == 1 ? Start::kKeep : Start::kZero);
  for (SequenceBranch<Real>& branch : branches_) branch.backward(features(), block);
}

template <typename Real>
void RecurrentGradient<Real>::finish() const {
  for (const SequenceBranch<Real>& branch : branches_) branch.finish();
  action_.finish();
  value_.finish();
}

template class RecurrentGradient<float>;
template class RecurrentGradient<double>;

}  // namespace tandem::rl
