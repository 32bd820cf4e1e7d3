// rl/policy/kernels/mlp_gradient.h: forward and backward passes of an MlpPolicy and of its actions' distribution
// without autograd, a block of samples at a time.
//
// An image goes through its torso when its row is taken (encoder_net.h), and the torso's gradient is computed row by
// row when the block has gone back through the layers. Those work on whole blocks of rows, and so far nothing is gained
// by giving them more than kBlock.
//
// MlpGradient reads the parameters where they lie and writes their gradients where their .grad is; all working memory
// is taken when it is made. MlpPolicy::forward() and autograd are the definition, and results agree with theirs to
// rounding. The bits of results depend on the samples, in their order, the parameters and the instruction set alone.
//
//     gradient.begin();
//     for each block of at most kBlock samples:
//       gradient.take(i, the leaves of the observation of sample i);
//       gradient.forward(samples);
//       turn head() and value() into derivatives of the loss with respect to them, zero beyond the samples;
//       gradient.backward();
//     gradient.finish();
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it. Real: the dtype of the
// policy's parameters, float or double.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/kernels/block_net.h"
#include "tandem/rl/policy/kernels/images/encoder_net.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"
#include "tandem/rl/policy/kernels/squashed_entropy.h"
#include "tandem/rl/policy/kernels/state_dependent_gradient.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// The sums of gradients of one policy over blocks of samples, and the memory that a block needs.
template <typename Real>
class MlpGradient {
 public:
  /// Throws ConfigError when this processor does not have `set`, and as require_compute(). The policy lies on the CPU,
  /// its parameters are `Real` and require gradients; those of double know float32 products alone.
  MlpGradient(const MlpPolicy& policy, InstructionSet set, Compute compute = Compute::kFloat32);
  MlpGradient(const MlpGradient&) = delete;
  MlpGradient& operator=(const MlpGradient&) = delete;

  /// Takes the parameters as they are now; sums of gradients begin at zero.
  void begin();
  /// Makes a row of observations, whose leaves lie at `leaves`, images until the block's backward(), sample `i` of the
  /// next block. Throws EnvError for an observation that is out of the spec's bounds.
  void take(std::int64_t i, std::span<const std::byte* const> leaves) { encoder_.forward(i, leaves, sample(i)); }
  /// Runs the network for the first `samples` of the block, at most kBlock.
  void forward(std::int64_t samples);
  /// [head_size, kBlock]: logits or means, until they are overwritten with derivatives.
  [[nodiscard]] Real* head();
  /// [features, kBlock]: what the actor's head is computed from.
  [[nodiscard]] const Real* latent() { return actor_.last_input(shared(), 0); }
  /// [kBlock]: values, until they are overwritten with derivatives.
  [[nodiscard]] Real* value();
  /// Adds the block's part to the sums of gradients, from the derivatives that head() and value() hold now. Both must
  /// be zero from the samples to their next multiple of kPanel.
  void backward();
  /// Overwrites the .grad of all weights and biases with the sums over the blocks. Throws InvariantError when one has
  /// no dense gradient of its shape to write to.
  void finish();

 private:
  using Net = BlockNet<Real>;
  // The features of sample `i`.
  [[nodiscard]] Real* sample(std::int64_t i) { return samples_.data() + i * sample_stride_; }
  [[nodiscard]] BlockInput<Real> features() const { return {.columns = input_.data(), .rows = samples_.data()}; }
  // The input of actor and critic.
  [[nodiscard]] BlockInput<Real> shared() {
    return trunk_ ? BlockInput<Real>{.columns = trunk_->output(0)} : features();
  }
  void backward(Net& net, typename Product<Real>::Start start);
  // Where a net that reads the features leaves the derivatives with respect to those that depend on parameters.
  [[nodiscard]] typename Net::OfInput of_learned(typename Product<Real>::Start start);
  void backward_encoder();

  const BlockKernels<Real>& kernels_;
  const std::int64_t features_, sample_stride_;
  // Samples of the block at hand.
  std::int64_t samples_now_ = 0;
  // The features as rows, [kBlock, sample_stride_], and transposed, [features, kBlock].
  AlignedArray<Real> samples_;
  AlignedArray<Real> input_;
  // Derivatives with respect to the trunk's outputs, [units, kBlock]; and to the features that depend on parameters, in
  // either layout of OfInput.
  AlignedArray<Real> of_trunk_, of_learned_;
  BackwardScratch<Real> scratch_;
  EncoderNet<Real> encoder_;
  std::optional<BlockNet<Real>> trunk_;  // none when trunks are separate
  BlockNet<Real> actor_, critic_;
  typename Net::OfInput::Layout of_learned_layout_ = Net::OfInput::Layout::kColumns;
};

extern template class MlpGradient<float>;
extern template class MlpGradient<double>;

/// Log-probability and entropy of the actions that were taken, and the backward pass of both, without autograd, a block
/// of samples at a time.
///
///     gradient.begin();
///     for each block of at most kBlock samples:
///       take(i, ...) and, with masks, allow(i, ...) for each sample i;
///       gradient.forward(head, samples);
///       make derivatives of the loss from log_prob() and entropy();
///       gradient.backward(head, of_log_prob, of_entropy);
///     gradient.finish();
///
/// It serves the actions of every family, masks included. The distributions of model/distribution are the definition;
/// results agree with them to rounding. The entropy of squashed normal actions is estimated by draws, as theirs.
template <typename Real>
class ActionGradient {
 public:
  /// `log_std`: the policy's parameter of that name, undefined for discrete actions. Throws ConfigError when this
  /// processor does not have `set`.
  ActionGradient(const ActorCritic& policy, const at::Tensor& log_std, InstructionSet set);

  /// Takes log_std as it is now; the sum of its gradient begins at zero.
  void begin();
  /// Draws for `count` samples, where the entropy is an estimate: take() gives each sample one of them.
  void draw(std::int64_t count);
  static constexpr std::int64_t kNoDraw = -1;
  /// Numbers of one action: its choices, or its components.
  [[nodiscard]] std::int64_t action_size() const { return static_cast<std::int64_t>(options_.size()); }
  /// Sets the action that was taken in sample `i` of the next block: action_size() options, or components.
  void take(std::int64_t i, const std::int64_t* options);
  void take(std::int64_t i, const Real* components, std::int64_t draw = kNoDraw);
  /// Sets which options sample `i` of the next block had: head_size() bytes, non-zero where allowed. To be called for
  /// all samples of a block or for none.
  void allow(std::int64_t i, const std::uint8_t* mask);

  /// Reads the policy's head for `samples` samples, [head_size, kBlock], and for state-dependent noise the features
  /// before it, [features, kBlock]. Fills log_prob() and entropy(), [kBlock] each, and leaves in `head` what backward()
  /// needs.
  void forward(Real* head, const Real* latent, std::int64_t samples);
  [[nodiscard]] const Real* log_prob() const { return log_prob_.data(); }
  [[nodiscard]] const Real* entropy() const { return entropy_.data(); }
  /// Turns `head` into derivatives with respect to what it was before forward(), of a loss whose derivatives with
  /// respect to log_prob and entropy are given, [kBlock] each, zero from the samples to their next multiple of kPanel.
  void backward(Real* head, const Real* of_log_prob, const Real* of_entropy);
  /// Overwrites log_std's .grad, where there is one.
  void finish();

 private:
  // Calls `work` with the block of each choice of an action in turn.
  template <typename Work>
  void for_choices(Real* head, const Work& work);
  void normal_forward(Real* head);
  void normal_backward(Real* head, const Real* of_log_prob, const Real* of_entropy);

  const BlockKernels<Real>& kernels_;
  // Undefined for discrete actions.
  const at::Tensor log_std_;
  // The number of options of each choice; 1 for a component.
  std::vector<std::int64_t> options_;
  // By component: 1 / standard deviation. Then the parts of log_prob and entropy of a normal action that do not depend
  // on the action.
  std::vector<Real> inverse_deviation_;
  double log_norm_ = 0, normal_entropy_ = 0;
  // Samples of the block, rounded up to panels.
  std::int64_t samples_ = 0;
  enum class Masks { kNone, kGiven } masks_ = Masks::kNone;
  // [action_size, kBlock] each, but allowed_: [head_size, kBlock].
  AlignedArray<Real> taken_;
  AlignedArray<Real> allowed_;
  AlignedArray<Real> choice_entropy_;
  // [kBlock] each.
  AlignedArray<Real> log_prob_, entropy_;
  AlignedArray<Real> of_log_std_;
  // [action_size, kPanel]: sums over the blocks, which finish() adds up.
  AlignedArray<Real> log_std_sum_;
  // Only the families that they are named after have them.
  std::optional<StateDependentGradient<Real>> state_dependent_;
  std::optional<SquashedEntropy<Real>> squashed_;
};

extern template class ActionGradient<float>;
extern template class ActionGradient<double>;

}  // namespace tandem::rl
