// rl/policy/observation.h: observations as tensors, one a leaf of the environment's spec, and as rows of features.
//
// Row r of each tensor is of environment r, as env_group.h writes them. Element types stay what they are in the
// environment, but for float64, which policies see as float32: images remain uint8 until the policy converts them.
//
// Threads: functions on values that do not change.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// The spec as a policy sees it: its leaves of float64 are of float32. Rollouts and evaluations narrow them
/// (rl/rollout/observation_intake.h).
[[nodiscard]] Spec as_policies_see(Spec spec);

/// One tensor a leaf, in the order of Spec::observation: [rows, leaf.shape...].
using Observation = std::vector<at::Tensor>;

/// Rows that a loss asks the policy about: observations and the actions that were taken.
struct ActedRows {
  Observation observation;
  at::Tensor action_mask;  // undefined without masks
  at::Tensor action, log_prob;
};

/// The dtype of a leaf's tensor, of the same name.
[[nodiscard]] at::ScalarType scalar_type(ElementType type);
/// The shape of a leaf's tensor with these dimensions before the leaf's own: the number of rows, say.
[[nodiscard]] std::vector<std::int64_t> with_rows(std::vector<std::int64_t> rows, const Leaf& leaf);

/// Throws ConfigError naming the leaf when `observation` is not [rows, ...] of `spec`, with one number of rows.
void check_observation(const Spec& spec, const Observation& observation);

/// The leaves on `device`, where a policy takes them; those that are there are not copied.
[[nodiscard]] Observation to_device(const Observation& observation, c10::Device device);

/// Turns an observation of any leaves into one float32 row of features, for networks that take vectors. Leaves follow
/// each other in the order of the spec, each flattened:
///   float32  as it is, and float64 as float32, as policies see it
///   uint8    scaled to 0 .. 1 by its bounds (0 .. 255 where it has none)
///   int64    one-hot: an element with bounds low .. high becomes high - low + 1 features
///
/// Immutable. encode() works on tensors of any device and is differentiable with respect to float leaves; encode_rows()
/// works on raw rows on the CPU and takes no memory. Both give the same bits.
class FlatFeatures {
 public:
  /// Throws ConfigError when an int64 leaf has no bounds, or more than 65,536 options in all.
  explicit FlatFeatures(const Spec& spec);

  /// Features of one row.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Whether a row of the (single, float32) leaf is the row of features already.
  [[nodiscard]] bool is_identity() const { return identity_; }

  /// [B, size()]. Throws ConfigError for observations that are not of the spec, EnvError for an integer out of bounds
  /// (looked at on the CPU only; elsewhere that would wait for the device).
  [[nodiscard]] at::Tensor encode(const Observation& observation) const;

  /// encode() of raw leaves (as EnvArrays::observation) into `out` [rows, size()]. Throws EnvError as encode() does.
  void encode_rows(std::span<const std::byte* const> leaves, std::int64_t rows, float* out) const;

  /// TorchScript statements, each line indented by four spaces, that compute `features` from `observation:
  /// List[Tensor]` with the constants (self.NAME).
  struct Script {
    std::string statements;
    std::vector<std::pair<std::string, at::Tensor>> constants = {};
  };
  [[nodiscard]] Script script() const;

  /// One leaf and its features, which lie at begin .. begin + features - 1 of a row.
  struct Part {
    Leaf leaf;
    /// Elements of the leaf.
    std::int64_t count = 0;
    std::int64_t begin = 0, features = 0;
    /// For uint8, by element: the feature is (x - low) * scale.
    std::vector<float> low = {}, scale = {};
    /// For int64, by element: its lowest value, the number of its options, and its first feature within the part.
    std::vector<std::int64_t> first = {}, options = {}, offset = {};
  };
  /// By leaf, for code that encodes by itself.
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }

 private:
  // The features of one leaf, as a tensor; and of one row of it, as numbers.
  [[nodiscard]] at::Tensor encode_part(const Part& part, const at::Tensor& leaf) const;
  void encode_row(const Part& part, const std::byte* row, float* out) const;

  Spec spec_;  // as policies see it
  // In the order of the spec.
  std::vector<Part> parts_;
  std::int64_t size_ = 0;
  bool identity_ = false;
};

}  // namespace tandem::rl
