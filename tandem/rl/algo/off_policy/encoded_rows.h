// rl/algo/off_policy/encoded_rows.h: observations as rows of features for kernels, images through their torsos and
// back. Encoder::encode() and autograd are the definition, and results agree with theirs to rounding.
//
// Without a torso it is FeatureRows. With one it serves encoders whose parameters are float32 on the CPU, and keeps
// what the torsos computed of each row until backward().
//
// Threads: single-thread, the replica's. Memory is taken when it is made. Ownership: the encoder is not owned.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/rl/algo/off_policy/feature_rows.h"
#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/kernels/images/encoder_net.h"

namespace tandem::rl {

class EncodedRows {
 public:
  struct Options {
    std::int64_t max_rows = 0;
    Passes passes = Passes::kForwardAndBackward;
    InstructionSet set = InstructionSet::kPortable;
    Compute compute = Compute::kFloat32;
  };
  /// Throws as EncoderNet does. Takes the parameters, as refresh().
  EncodedRows(const Encoder& encoder, const Options& options);

  /// The torsos take their parameters as they are now, and sums of gradients begin at zero.
  void refresh();
  /// [rows, features], of contiguous tensors on the CPU. Valid until the next call, or while the observation is, which
  /// stays as it is until backward().
  [[nodiscard]] const float* of(const Observation& observation);
  /// Overwrites the gradients of the torsos' parameters. `of_features`: the derivatives with respect to the rows of the
  /// last of(), [rows, features]. Without a torso there is nothing to do.
  void backward(const float* of_features);
  [[nodiscard]] bool has_torso() const { return torsos_.has_value(); }

 private:
  const std::int64_t features_;
  const Passes passes_;
  FeatureRows flat_;
  std::optional<EncoderNet<float>> torsos_;
  std::int64_t rows_ = 0;   // of the last of()
  std::vector<float> all_;  // [rows, features], with a torso
  std::vector<const std::byte*> leaves_;
};

}  // namespace tandem::rl
