#include "tandem/rl/policy/kernels/mlp_gradient.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/check.h"

// A block's activations are kept by the nets (block_net.h) until its backward pass, so each keeps a single block.
namespace tandem::rl {
namespace {

// The largest number of inputs or outputs of any layer.
std::int64_t widest(const MlpPolicy& policy) {
  std::int64_t most = policy.encoder().size();
  for (const Mlp* net : {policy.trunk(), &policy.actor(), &policy.critic()}) {
    if (net != nullptr) most = std::max(most, std::ranges::max(net->options().sizes));
  }
  return most;
}

bool has_trunk(const MlpPolicy& policy) { return policy.trunk() != nullptr && !policy.trunk()->layers().empty(); }

// The features come as rows; the trunk's outputs do not.
template <typename Real>
typename BlockNet<Real>::Options above_trunk(const MlpPolicy& policy, Compute compute) {
  using Rows = typename BlockNet<Real>::InputRows;
  return {.rows = has_trunk(policy) ? Rows::kMissing : Rows::kGiven, .compute = compute};
}

}  // namespace

template <typename Real>
MlpGradient<Real>::MlpGradient(const MlpPolicy& policy, InstructionSet set, Compute compute)
    : kernels_(block_kernels<Real>(set)),
      features_(policy.encoder().size()),
      sample_stride_(row_stride(features_)),
      samples_(kBlock * sample_stride_),
      input_(padded(features_) * kBlock),
      of_trunk_(has_trunk(policy) ? padded(widest(policy)) * kBlock : 0),
      of_learned_(policy.has_torso() ? padded(features_) * kBlock : 0),
      scratch_(widest(policy)),
      encoder_(policy.encoder(), set, {.samples = kBlock, .compute = compute}),
      actor_(policy.actor(), kernels_, above_trunk<Real>(policy, compute)),
      critic_(policy.critic(), kernels_, above_trunk<Real>(policy, compute)) {
  if (has_trunk(policy)) trunk_.emplace(*policy.trunk(), kernels_, typename Net::Options{.compute = compute});
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
  encoder_.begin();
  for (Net* net : {trunk_ ? &*trunk_ : nullptr, &actor_, &critic_}) {
    if (net == nullptr) continue;
    net->take_parameters();
    net->begin();
  }
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

// Actor and critic both add to the derivatives of what they share: the actor writes them first, the critic adds its
// own.
template <typename Real>
void MlpGradient<Real>::backward() {
  using Start = typename Product<Real>::Start;
  backward(actor_, Start::kZero);
  backward(critic_, Start::kKeep);
  if (trunk_) {
    typename Net::OfInput of_features;
    if (encoder_.learned() > 0) of_features = {.columns = of_learned_.data(), .begin = 0, .count = encoder_.learned()};
    trunk_->backward(features(), 0, samples_now_, of_trunk_.data(), ParameterGradients::kOverwrite, of_features,
                     scratch_);
  }
  if (encoder_.learned() > 0) backward_encoder();
}

// Starts from the derivatives that lie where the net's outputs lay.
template <typename Real>
void MlpGradient<Real>::backward(Net& net, typename Product<Real>::Start start) {
  typename Net::OfInput of_shared;
  if (trunk_) {
    of_shared = {.columns = of_trunk_.data(), .begin = 0, .count = net.inputs(), .start = start};
  } else if (encoder_.learned() > 0) {
    of_shared = {.columns = of_learned_.data(), .begin = 0, .count = encoder_.learned(), .start = start};
  }
  net.backward(shared(), 0, samples_now_, net.output(0), ParameterGradients::kOverwrite, of_shared, scratch_);
}

// The features are needed no more, so their memory takes the derivatives as rows.
template <typename Real>
void MlpGradient<Real>::backward_encoder() {
  kernels_.transpose(of_learned_.data(), kBlock, encoder_.learned(), samples_now_, samples_.data(), sample_stride_);
  for (std::int64_t i = 0; i < samples_now_; ++i) encoder_.backward(i, sample(i));
}

template <typename Real>
void MlpGradient<Real>::finish() {
  encoder_.finish();
  if (trunk_) trunk_->finish(ParameterGradients::kOverwrite);
  actor_.finish(ParameterGradients::kOverwrite);
  critic_.finish(ParameterGradients::kOverwrite);
}

template class MlpGradient<float>;
template class MlpGradient<double>;

}  // namespace tandem::rl
