// rl/algo/off_policy/feature_rows.h: observations as rows of features, for kernels.
//
// The rows that a replay gives are contiguous, so one leaf of floats is its own row of features. Several leaves, bytes
// and choices are encoded, as the policy's own encoder does it.
//
// Threads: single-thread. Memory is taken when it is made.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/rl/policy/observation.h"

namespace tandem::rl {

/// Where the features are the observation itself nothing is copied.
class FeatureRows {
 public:
  /// For up to `most_rows` rows a call. `features` outlives it.
  FeatureRows(const FlatFeatures& features, std::int64_t most_rows)
      : features_(features),
        rows_(features.is_identity() ? 0 : static_cast<std::size_t>(features.size() * most_rows)) {}

  /// [rows, features]: of contiguous tensors on the CPU. Valid until the next call, or while the observation is.
  [[nodiscard]] const float* of(const Observation& observation) {
    if (features_.is_identity()) return observation.front().const_data_ptr<float>();
    leaves_.clear();
    for (const at::Tensor& leaf : observation) leaves_.push_back(static_cast<const std::byte*>(leaf.const_data_ptr()));
    features_.encode_rows(leaves_, observation.front().size(0), rows_.data());
    return rows_.data();
  }

 private:
  // Rows where features are encoded; else empty.
  const FlatFeatures& features_;
  std::vector<float> rows_;
  std::vector<const std::byte*> leaves_;
};

}  // namespace tandem::rl
