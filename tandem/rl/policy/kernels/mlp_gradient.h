// rl/policy/kernels/mlp_gradient.h: forward and backward passes of an MlpPolicy without autograd, a block of samples at
// a time.
//
// MlpGradient reads the parameters where they lie and writes their gradients where their .grad is; all working memory
// is taken when it is made. MlpPolicy::forward() and autograd are the definition, and results agree with theirs to
// rounding. The bits of results depend on the samples, in their order, the parameters and the instruction set alone.
//
//     gradient.begin();
//     for each block of at most kBlock samples:
//       write the features of sample i to gradient.sample(i);
//       gradient.forward(samples);
//       turn head() and value() into derivatives of the loss with respect to them, zero beyond the samples;
//       gradient.backward();
//     gradient.finish();
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it. Real: the dtype of the
// policy's parameters, float or double.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/kernels/block_kernels.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// The sums of gradients of one policy over blocks of samples, and the memory that a block needs.
template <typename Real>
class MlpGradient {
 public:
  /// Throws ConfigError when this processor does not have `set`. The policy lies on the CPU, its parameters are `Real`
  /// and require gradients.
  MlpGradient(const MlpPolicy& policy, InstructionSet set);
  ~MlpGradient();
  MlpGradient(const MlpGradient&) = delete;
  MlpGradient& operator=(const MlpGradient&) = delete;

  /// Takes the parameters as they are now; sums of gradients begin at zero.
  void begin();
  /// Where the features of sample `i` of the next block belong, in the order of FlatFeatures.
  [[nodiscard]] Real* sample(std::int64_t i) { return samples_.data() + i * sample_stride_; }
  /// Runs the network for the first `samples` of the block, at most kBlock.
  void forward(std::int64_t samples);
  /// [head_size, kBlock]: logits or means, until they are overwritten with derivatives.
  [[nodiscard]] Real* head();
  /// [kBlock]: values, until they are overwritten with derivatives.
  [[nodiscard]] Real* value();
  /// Adds the block's part to the sums of gradients, from the derivatives that head() and value() hold now. Both must
  /// be zero from the samples to their next multiple of kPanel.
  void backward();
  /// Overwrites the .grad of all weights and biases with the sums over the blocks. Throws InvariantError when one has
  /// no dense gradient of its shape to write to.
  void finish();

 private:
  struct Layer;
  using Net = std::vector<Layer>;
  [[nodiscard]] Net make_net(const Mlp& mlp, const Real* input) const;
  void forward(Net& net);
  void backward(Net& net, Real* of_input, typename Product<Real>::Start start);
  void add_to_weights(Layer& layer, const Real* gradient);
  void activate(Layer& layer);
  void multiply_by_slope(Layer& layer, Real* gradient);
  static void write(const Layer& layer);

  const BlockKernels<Real>& kernels_;
  const Activation activation_;
  const std::int64_t features_, sample_stride_;
  // Samples of the block at hand.
  std::int64_t samples_now_ = 0;
  // The features as rows, [kBlock, sample_stride_], and transposed, [features, kBlock].
  AlignedArray<Real> samples_;
  AlignedArray<Real> input_;
  // Derivatives with respect to a layer's outputs, [widest, kBlock]: of two neighbouring layers in turn, and of the
  // trunk.
  AlignedArray<Real> of_hidden_[2];
  AlignedArray<Real> of_trunk_;
  // [kBlock, widest]: scratch for transposing.
  AlignedArray<Real> transposed_;
  // The trunk has no layers when trunks are separate.
  Net trunk_, actor_, critic_;
};

/// The memory of a parameter's .grad, to write the gradient to. Throws InvariantError unless there is a .grad that is
/// laid out as the parameter and of `Real`.
template <typename Real>
[[nodiscard]] Real* gradient_memory(const at::Tensor& parameter);

/// sums[r] = the sum of lanes[r, 0 .. kPanel), which BlockKernels::add_columns() left.
template <typename Real>
void write_lane_sums(const Real* lanes, std::int64_t rows, Real* sums);

extern template class MlpGradient<float>;
extern template class MlpGradient<double>;

}  // namespace tandem::rl
