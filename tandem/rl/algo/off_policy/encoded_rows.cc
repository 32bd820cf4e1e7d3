#include "tandem/rl/algo/off_policy/encoded_rows.h"

#include "tandem/base/check.h"

namespace tandem::rl {

// Passes forward need the torsos' values of a single row. flat_ is for encoders without a torso, whose features may be
// the observation itself.
EncodedRows::EncodedRows(const Encoder& encoder, const Options& options)
    : features_(encoder.size()), passes_(options.passes), flat_(encoder.flat(), options.max_rows) {
  if (!encoder.has_torso()) return;
  const std::int64_t kept = passes_ == Passes::kForward ? 1 : options.max_rows;
  torsos_.emplace(encoder, options.set,
                  TorsoNet<float>::Options{.samples = kept, .passes = passes_, .compute = options.compute});
  all_.resize(static_cast<std::size_t>(options.max_rows * features_));
  refresh();
}

// Sums of gradients are there for passes back alone.
void EncodedRows::refresh() {
  if (!torsos_) return;
  if (passes_ == Passes::kForward) {
    torsos_->take_parameters();
  } else {
    torsos_->begin();
  }
}

// Rows go through the torsos one by one, as they do in acting, so that a row's features are the same in any batch. The
// leaves of a row lie where the tensors of the observation have it.
const float* EncodedRows::of(const Observation& observation) {
  if (!torsos_) return flat_.of(observation);
  rows_ = observation.front().size(0);
  TANDEM_CHECK(rows_ * features_ <= static_cast<std::int64_t>(all_.size()), rows_, " rows of at most ",
               static_cast<std::int64_t>(all_.size()) / features_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    leaves_.clear();
    for (const at::Tensor& leaf : observation) {
      const std::size_t bytes = leaf.nbytes() / static_cast<std::size_t>(rows_);
      leaves_.push_back(static_cast<const std::byte*>(leaf.const_data_ptr()) + static_cast<std::size_t>(row) * bytes);
    }
    torsos_->forward(passes_ == Passes::kForward ? 0 : row, leaves_, all_.data() + row * features_);
  }
  return all_.data();
}

// The features of the torsos come first in a row.
void EncodedRows::backward(const float* of_features) {
  if (!torsos_) return;
  for (std::int64_t row = 0; row < rows_; ++row) torsos_->backward(row, of_features + row * features_);
  torsos_->finish();
}

}  // namespace tandem::rl
