// rl/algo/dqn/return_passes.h: forward and backward passes of a ReturnNetwork by kernels, without autograd: of its
// torso, where it sees images, and of its one stream, or of the value and the advantages together.
// ReturnNetwork::forward() is the definition, and results agree with it to rounding.
//
// What acts, what learns and the target network have one each; noisy layers are drawn into memory of the object.
//
// It serves networks whose parameters are float32 on the CPU, and reads them where they lie, but for those of a torso.
//
// Threads: single-thread, the replica's. Memory is taken when it is made. Ownership: the network is not owned.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/rl/algo/dqn/dqn_options.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/dqn/softmax_rows.h"
#include "tandem/rl/algo/off_policy/encoded_rows.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"

namespace tandem::rl {

class ReturnPasses {
 public:
  using Options = EncodedRows::Options;
  /// Throws as MlpEnsemble and EncodedRows do.
  ReturnPasses(const ReturnNetwork& network, const DqnOptions& of, const Options& options);

  /// Draws noisy layers anew from the parameters as they are now: to be called when these have changed, too, before
  /// forward(). Not called: they have their means. Of networks with noisy layers.
  void draw(const ReturnNoise& noise);
  /// A torso takes its parameters as they are now: to be called when these have changed, before forward().
  void refresh() { encoded_.refresh(); }
  /// Returns what the network tells of the rows of an observation: [rows, actions, numbers], valid until the next call.
  /// The observation, contiguous tensors on the CPU, stays as it is until backward().
  const float* forward(const Observation& observation);
  /// The means of the returns that forward() told last: [rows, actions], valid until the next call.
  const float* means();
  /// Overwrites the gradients of a loss whose derivatives with respect to what forward() told, [rows, actions,
  /// numbers], are given; these are overwritten, too.
  void backward(float* of_returns);

  [[nodiscard]] std::int64_t actions() const { return actions_; }

 private:
  [[nodiscard]] const float* backward_streams(float* of_returns);

  const DqnOptions of_;
  const std::int64_t numbers_, actions_;
  EncodedRows encoded_;
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
  // numbers]; and, of two streams behind a torso, [rows, features].
  std::vector<float> returns_, shares_, means_, of_value_, of_features_;
};

}  // namespace tandem::rl
