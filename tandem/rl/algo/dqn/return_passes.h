// rl/algo/dqn/return_passes.h: forward and backward passes of a ReturnNetwork by kernels, without autograd: of its one
// stream, or of the value and the advantages together. ReturnNetwork::forward() is the definition, and results agree
// with it to rounding.
//
// What acts, what learns and the target network have one each; noisy layers are drawn into memory of the object.
//
// It serves networks without a torso whose parameters are float32 on the CPU, and reads them where they lie.
//
// Threads: single-thread, the replica's. Memory is taken when it is made. Ownership: the network is not owned.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/rl/algo/dqn/dqn_options.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/dqn/softmax_rows.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"

namespace tandem::rl {

class ReturnPasses {
 public:
  struct Options {
    std::int64_t max_rows = 0;
    Passes passes = Passes::kForwardAndBackward;
    InstructionSet set = InstructionSet::kPortable;
    Compute compute = Compute::kFloat32;
  };
  /// Throws as MlpEnsemble does.
  ReturnPasses(const ReturnNetwork& network, const DqnOptions& of, const Options& options);

  /// Draws noisy layers anew from the parameters as they are now: to be called when these have changed, too, before
  /// forward(). Not called: they have their means. Of networks with noisy layers.
  void draw(const ReturnNoise& noise);
  /// Returns what the network tells of `rows` rows of features: [rows, actions, numbers], valid until the next call.
  const float* forward(const float* features, std::int64_t rows);
  /// The means of the returns that forward() told last: [rows, actions], valid until the next call.
  const float* means();
  /// Overwrites the gradients of a loss whose derivatives with respect to what forward() told, [rows, actions,
  /// numbers], are given; these are overwritten, too.
  void backward(float* of_returns);

  [[nodiscard]] std::int64_t actions() const { return actions_; }

 private:
  const DqnOptions of_;
  const std::int64_t numbers_, actions_;
  std::int64_t rows_ = 0;  // of the last forward()
  const float* told_ = nullptr;
  // Noisy layers are drawn here.
  std::optional<NoisyDraw> net_draw_, advantage_draw_;
  // The network of one stream or of the state's value, and that of the advantages; with noisy layers, what was drawn.
  MlpEnsemble<float> net_;
  std::optional<MlpEnsemble<float>> advantage_;
  const float* support_;
  // A categorical distribution has one.
  std::optional<SoftmaxRows> softmax_;
  // [rows, actions, numbers] of two streams; [rows, actions, numbers] of probabilities; [rows, actions]; [rows,
  // numbers].
  std::vector<float> returns_, shares_, means_, of_value_;
};

}  // namespace tandem::rl
