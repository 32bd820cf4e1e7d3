#include "tandem/rl/policy/kernels/images/encoder_net.h"

#include <algorithm>
#include <type_traits>

namespace tandem::rl {

template <typename Real>
EncoderNet<Real>::EncoderNet(const Encoder& encoder, InstructionSet set,
                             const typename TorsoNet<Real>::Options& options)
    : encoder_(encoder),
      flat_leaves_(encoder.flat_leaves().size()),
      flat_(static_cast<std::size_t>(std::is_same_v<Real, float> ? 0 : encoder.flat().size())) {
  for (const Encoder::OfLeaf& each : encoder.torsos()) {
    torsos_.emplace_back(*each.torso, set, options);
    learned_ += each.torso->features();
  }
}

template <typename Real>
void EncoderNet<Real>::take_parameters() {
  for (TorsoNet<Real>& torso : torsos_) torso.take_parameters();
}

template <typename Real>
void EncoderNet<Real>::begin() {
  for (TorsoNet<Real>& torso : torsos_) torso.begin();
}

template <typename Real>
void EncoderNet<Real>::forward(std::int64_t sample, std::span<const std::byte* const> leaves, Real* row) {
  for (std::size_t i = 0; i < torsos_.size(); ++i) {
    const auto* image = reinterpret_cast<const std::uint8_t*>(leaves[encoder_.torsos()[i].leaf]);
    torsos_[i].forward(sample, image, row);
    row += torsos_[i].features();
  }
  if (flat_leaves_.empty()) return;
  for (std::size_t i = 0; i < flat_leaves_.size(); ++i) flat_leaves_[i] = leaves[encoder_.flat_leaves()[i]];
  // Features are computed in float; only tests with double need the copy.
  if constexpr (std::is_same_v<Real, float>) {
    encoder_.flat().encode_rows(flat_leaves_, 1, row);
  } else {
    encoder_.flat().encode_rows(flat_leaves_, 1, flat_.data());
    std::copy(flat_.begin(), flat_.end(), row);
  }
}

template <typename Real>
void EncoderNet<Real>::backward(std::int64_t sample, const Real* of_row) {
  for (TorsoNet<Real>& torso : torsos_) {
    torso.backward(sample, of_row);
    of_row += torso.features();
  }
}

template <typename Real>
void EncoderNet<Real>::finish() const {
  for (const TorsoNet<Real>& torso : torsos_) torso.finish();
}

template class EncoderNet<float>;
template class EncoderNet<double>;

}  // namespace tandem::rl
