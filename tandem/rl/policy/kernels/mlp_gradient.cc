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
  return {.rows = has_trunk(policy) ? Rows::kMissing : Rows::kGiven,
          .compute = compute,
          .sums = BlockNet<Real>::SumsOfWeights::kInGradient};
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
      of_learned_(policy.has_torso() ? kBlock * row_stride(features_) : 0),
      scratch_(widest(policy)),
      encoder_(policy.encoder(), set, {.samples = kBlock, .compute = compute}),
      actor_(policy.actor(), kernels_, above_trunk<Real>(policy, compute)),
      critic_(policy.critic(), kernels_, above_trunk<Real>(policy, compute)) {
  if (has_trunk(policy)) {
    const typename Net::Options options{.compute = compute, .sums = Net::SumsOfWeights::kInGradient};
    trunk_.emplace(*policy.trunk(), kernels_, options);
  }
  const std::int64_t learned = encoder_.learned();
  if (trunk_ ? trunk_->makes_rows(learned) : actor_.makes_rows(learned) && critic_.makes_rows(learned))
    of_learned_layout_ = Net::OfInput::Layout::kRows;
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
    trunk_->backward(features(), 0, samples_now_, of_trunk_.data(), ParameterGradients::kOverwrite,
                     of_learned(Start::kZero), scratch_);
  }
  if (encoder_.learned() > 0) backward_encoder();
}

// Starts from the derivatives that lie where the net's outputs lay.
template <typename Real>
void MlpGradient<Real>::backward(Net& net, typename Product<Real>::Start start) {
  const typename Net::OfInput of_shared =
      trunk_ ? typename Net::OfInput{.numbers = of_trunk_.data(), .begin = 0, .count = net.inputs(), .start = start}
             : of_learned(start);
  net.backward(shared(), 0, samples_now_, net.output(0), ParameterGradients::kOverwrite, of_shared, scratch_);
}

template <typename Real>
typename MlpGradient<Real>::Net::OfInput MlpGradient<Real>::of_learned(typename Product<Real>::Start start) {
  return {.numbers = encoder_.learned() > 0 ? of_learned_.data() : nullptr,
          .begin = 0,
          .count = encoder_.learned(),
          .start = start,
          .layout = of_learned_layout_};
}

// The features are needed no more, so their memory takes the derivatives as rows where they have come as columns.
template <typename Real>
void MlpGradient<Real>::backward_encoder() {
  const std::int64_t learned = encoder_.learned();
  const bool has_rows = of_learned_layout_ == Net::OfInput::Layout::kRows;
  if (!has_rows) kernels_.transpose(of_learned_.data(), kBlock, learned, samples_now_, samples_.data(), sample_stride_);
  for (std::int64_t i = 0; i < samples_now_; ++i)
    encoder_.backward(i, has_rows ? of_learned_.data() + i * row_stride(learned) : sample(i));
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
