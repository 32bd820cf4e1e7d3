// rl/policy/kernels/images/encoder_net.h: an Encoder over raw rows, forward and backward without autograd: images go
// through the loops of their torsos, the other leaves as FlatFeatures does it.
//
// It is what learning and acting have in front of the layers of an MlpPolicy, so that both see the same features of a
// row. A policy without a torso has one, too, which learns nothing and encodes rows.
//
// Threads: single-thread, the replica's. Ownership: the encoder is not owned and must outlive the net.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/kernels/images/torso_net.h"

namespace tandem::rl {

/// For the calls in their order see torso_net.h. `Real`: the dtype of the parameters, float or double.
template <typename Real>
class EncoderNet {
 public:
  /// Throws ConfigError when this processor does not have `set`.
  EncoderNet(const Encoder& encoder, InstructionSet set, const typename TorsoNet<Real>::Options& options);

  /// The features of a row that depend on parameters, and that come first in it; 0 without a torso.
  [[nodiscard]] std::int64_t learned() const { return learned_; }
  /// Each torso takes its parameters as they are now.
  void take_parameters();
  /// The same, and sums of gradients begin at zero.
  void begin();
  /// `sample`: where torsos keep their values for backward().
  /// Writes the features of one row, whose leaves lie at `leaves`, images until backward() of the sample. Throws
  /// EnvError as FlatFeatures::encode_rows().
  void forward(std::int64_t sample, std::span<const std::byte* const> leaves, Real* row);
  /// `of_row`: the derivatives with respect to the first learned() features.
  void backward(std::int64_t sample, const Real* of_row);
  /// Overwrites the .grad of all parameters of the torsos with the sums.
  void finish() const;

 private:
  // The definition, which knows which leaf goes where.
  const Encoder& encoder_;
  // The features of all torsos, which stand before those of the other leaves in a row.
  std::int64_t learned_ = 0;
  std::vector<TorsoNet<Real>> torsos_;
  std::vector<const std::byte*> flat_leaves_;  // of one row
  std::vector<float> flat_;                    // features of one row, where Real is another type
};

extern template class EncoderNet<float>;
extern template class EncoderNet<double>;

}  // namespace tandem::rl
