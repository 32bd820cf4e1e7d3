// rl/rollout/observation_intake.h: what lies between the observations that environments write and those that a policy
// sees: normalisation, and the narrowing of float64 leaves to float32.
//
// Threads: single-thread, as the env group. It takes no memory after its construction, unless it throws or remarks.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/remarks.h"

namespace tandem::rl {

/// One for the environments, or agents, of a group that are of one spec.
class ObservationIntake {
 public:
  /// `normalized`: whether the run normalises observations. `remarks`: null, or where to say, at most once for a leaf,
  /// that narrowing makes numbers of it equal that are not: that float32 has fewer than a thousand steps between the
  /// leaf's bounds, or between the least and the largest number of an element in the first rows that are shown.
  ObservationIntake(const Spec& spec, bool normalized, std::shared_ptr<Remarks> remarks = {});

  /// Whether a policy sees other numbers of a leaf than the environments write, which then need memory of their own.
  [[nodiscard]] bool converts(std::size_t leaf) const { return ways_[leaf] != Way::kAsItIs; }
  [[nodiscard]] bool converts_any() const { return converts_any_; }
  /// Whether raw numbers of a leaf have another type than those that the policy sees.
  [[nodiscard]] bool narrows(std::size_t leaf) const { return spec_.observation[leaf].type == ElementType::kFloat64; }

  /// Memory for rows of each leaf, as environments write them.
  [[nodiscard]] std::vector<at::Tensor> memory(std::int64_t rows) const;

  /// Writes rows as the policy sees them. `raw` and `seen` may be the same memory unless the leaf narrows(). `frozen`
  /// is needed where observations are normalised. Throws EnvError for a number beyond float32, which names the leaf,
  /// the element, and the row with `first_row` added.
  void show(std::size_t leaf, const void* raw, void* seen, std::int64_t rows, const Normalizers* frozen,
            std::size_t first_row = 0);

  /// Adds a row of numbers, as environments wrote them, to the leaf's moments. For leaves that can be normalised.
  void gather(std::size_t leaf, const void* row, RunningMoments& moments) const;

 private:
  enum class Way { kAsItIs, kNormalized, kNormalizedWide, kNarrowed };
  // Of a narrowed leaf, by element, while it is watched.
  struct Seen {
    std::vector<double> least, most;  // empty: not watched
    std::int64_t rows = 0;
  };
  void narrow(std::size_t leaf, const double* raw, float* seen, std::int64_t rows, std::size_t first_row);
  void watch(std::size_t leaf, const double* raw, std::int64_t rows);

  const Spec spec_;
  const std::shared_ptr<Remarks> remarks_;
  std::vector<Way> ways_;   // by leaf
  std::vector<Seen> seen_;  // by leaf
  bool converts_any_ = false;
};

}  // namespace tandem::rl
