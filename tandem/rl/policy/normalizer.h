// rl/policy/normalizer.h: brings observations to mean 0 and variance 1, and scales rewards by the spread of discounted
// returns.
//
// As stable-baselines3's VecNormalize, with one difference: statistics are frozen while a fragment is collected. Each
// env group gathers moments of its own, which are merged in the order of the groups at the fragment's end and count
// from the next one on. (VecNormalize updates after every step of all environments, which would make the numbers depend
// on how these are spread.)
//
// Threads: Normalizers are read by many threads during a rollout, and written by one between rollouts. Where sampling
// and learning happen at the same time, each rollout worker has a copy. Copying one to another of the same kind,
// merging and normalising ask for no memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/policy/running_moments.h"

namespace tandem::rl {

struct NormalizerOptions {
  bool observations = false;
  bool rewards = false;
  double clip_observation = 10;  // normalised observations are cut to [-clip, clip]
  double clip_reward = 10;       // scaled rewards likewise
  double epsilon = 1e-8;         // added to variances
};

/// What one env group saw during a fragment.
struct NormalizerMoments {
  NormalizerMoments(const Spec& spec, const NormalizerOptions& options);
  void clear();

  std::vector<RunningMoments> observation;  // per leaf; empty unless observations are normalised
  RunningMoments discounted_return;         // of one element
};

class Normalizers {
 public:
  /// Throws ConfigError when observations are to be normalised and a leaf is not of floats, naming it.
  Normalizers(const Spec& spec, const NormalizerOptions& options);

  [[nodiscard]] const NormalizerOptions& options() const { return options_; }

  /// Adds what a group saw. Call it for all groups in their order, then finish_merge().
  void merge(const NormalizerMoments& group);
  /// Makes the merged statistics those that normalise from now on.
  void finish_merge();

  /// Writes `rows` normalised rows of leaf `leaf` from `raw` to `out`; they may be the same memory.
  void normalize(std::size_t leaf, const float* raw, float* out, std::int64_t rows) const;
  [[nodiscard]] float scale_reward(double reward) const;

  /// Mean and standard deviation (with epsilon) of a leaf, as float32, for exporting.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> mean_and_std(std::size_t leaf) const;

  /// Everything, by name, float64, in copies; and back, throwing CheckpointError naming what is missing or of another
  /// size.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> state() const;
  void load(const std::vector<std::pair<std::string, at::Tensor>>& state);

 private:
  NormalizerOptions options_;
  NormalizerMoments moments_;
  std::vector<std::vector<float>> mean_, inverse_std_;  // per leaf
  double reward_scale_ = 1;
};

}  // namespace tandem::rl
