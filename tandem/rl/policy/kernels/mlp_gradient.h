// rl/policy/mlp_gradient.h: forward and backward passes of an MlpPolicy without autograd, a block of samples at a time.
//
// It reads the parameters where they lie and writes their gradients where their .grad is; all memory that it works in
// is taken when it is made. MlpPolicy::forward() and autograd are the definition, and results agree with theirs to
// rounding. Their bits depend on the samples, in their order, the parameters and the instruction set alone.
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
  /// The first `samples` of the block; at most kBlock.
  void forward(std::int64_t samples);
  /// [head_size, kBlock]: logits or means, until they are overwritten with derivatives.
  [[nodiscard]] Real* head();
  /// [kBlock], likewise.
  [[nodiscard]] Real* value();
  /// From what head() and value() hold now; both must be zero from the samples to their next multiple of kPanel.
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
  std::int64_t samples_now_ = 0;
  AlignedArray<Real> samples_;       // [kBlock, sample_stride_]
  AlignedArray<Real> input_;         // [features, kBlock]
  AlignedArray<Real> of_hidden_[2];  // derivatives with respect to a layer's outputs, [widest, kBlock]
  AlignedArray<Real> of_trunk_;      // and to those of the trunk
  AlignedArray<Real> transposed_;    // [kBlock, widest]
  Net trunk_, actor_, critic_;       // trunk_: no layers when separate
};

/// Where the gradient of a parameter is to be written: its .grad. Throws InvariantError unless that is there, laid out
/// as the parameter, and of `Real`.
template <typename Real>
[[nodiscard]] Real* gradient_memory(const at::Tensor& parameter);

/// sums[r] = the sum of lanes[r, 0 .. kPanel), which BlockKernels::add_columns() left.
template <typename Real>
void write_lane_sums(const Real* lanes, std::int64_t rows, Real* sums);

extern template class MlpGradient<float>;
extern template class MlpGradient<double>;

}  // namespace tandem::rl
