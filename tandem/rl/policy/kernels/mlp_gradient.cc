#include "tandem/rl/policy/kernels/mlp_gradient.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/check.h"

// A block's activations are kept by the nets (block_net.h) until its backward pass, so each keeps a single block.
namespace tandem::rl {
namespace {

// The largest number of inputs or outputs of any layer.
std::int64_t widest(const MlpPolicy& policy) {
  std::int64_t most = policy.features().size();
  for (const Mlp* net : {policy.trunk(), &policy.actor(), &policy.critic()}) {
    if (net != nullptr) most = std::max(most, std::ranges::max(net->options().sizes));
  }
  return most;
}

bool has_trunk(const MlpPolicy& policy) { return policy.trunk() != nullptr && !policy.trunk()->layers().empty(); }

// The features come as rows; the trunk's outputs do not.
template <typename Real>
typename BlockNet<Real>::Options above_trunk(const MlpPolicy& policy) {
  using Rows = typename BlockNet<Real>::InputRows;
  return {.rows = has_trunk(policy) ? Rows::kMissing : Rows::kGiven};
}

}  // namespace

template <typename Real>
MlpGradient<Real>::MlpGradient(const MlpPolicy& policy, InstructionSet set)
    : kernels_(block_kernels<Real>(set)),
      features_(policy.features().size()),
      sample_stride_(row_stride(features_)),
      samples_(kBlock * sample_stride_),
      input_(padded(features_) * kBlock),
      of_trunk_(has_trunk(policy) ? padded(widest(policy)) * kBlock : 0),
      scratch_(widest(policy)),
      actor_(policy.actor(), kernels_, above_trunk<Real>(policy)),
      critic_(policy.critic(), kernels_, above_trunk<Real>(policy)) {
  if (has_trunk(policy)) trunk_.emplace(*policy.trunk(), kernels_, typename Net::Options{});
}

template <typename Real>
Real* MlpGradient<Real>::head() {
  return actor_.output(0);
}

template <typename Real>
Real* MlpGradient<Real>::value() {
  return critic_.output(0);
}

template <typename Real>
void MlpGradient<Real>::begin() {
  if (trunk_) trunk_->begin();
  actor_.begin();
  critic_.begin();
}

template <typename Real>
void MlpGradient<Real>::forward(std::int64_t samples) {
  TANDEM_CHECK(samples > 0 && samples <= kBlock, samples, " samples of a block of ", kBlock);
  samples_now_ = samples;
  kernels_.transpose(samples_.data(), sample_stride_, samples, features_, input_.data(), kBlock);
  if (trunk_) trunk_->forward(features(), 0, samples);
  actor_.forward(shared(), 0, samples);
  critic_.forward(shared(), 0, samples);
}

// Actor and critic both add to the trunk's derivatives: the actor writes them first, the critic adds its own.
template <typename Real>
void MlpGradient<Real>::backward() {
  using Start = typename Product<Real>::Start;
  backward(actor_, Start::kZero);
  backward(critic_, Start::kKeep);
  if (!trunk_) return;
  trunk_->backward(features(), 0, samples_now_, of_trunk_.data(), ParameterGradients::kOverwrite, {}, scratch_);
}

// Starts from the derivatives that lie where the net's outputs lay.
template <typename Real>
void MlpGradient<Real>::backward(Net& net, typename Product<Real>::Start start) {
  typename Net::OfInput of_trunk;
  if (trunk_) of_trunk = {.columns = of_trunk_.data(), .begin = 0, .count = net.inputs(), .start = start};
  net.backward(shared(), 0, samples_now_, net.output(0), ParameterGradients::kOverwrite, of_trunk, scratch_);
}

template <typename Real>
void MlpGradient<Real>::finish() {
  if (trunk_) trunk_->finish(ParameterGradients::kOverwrite);
  actor_.finish(ParameterGradients::kOverwrite);
  critic_.finish(ParameterGradients::kOverwrite);
}

template class MlpGradient<float>;
template class MlpGradient<double>;

}  // namespace tandem::rl
