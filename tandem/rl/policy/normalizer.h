// rl/policy/normalizer.h: brings observations to mean 0 and variance 1, and scales rewards by the spread of discounted
// returns.
//
// The formulas are those of stable-baselines3's VecNormalize, with one difference: statistics are frozen while a
// fragment is collected. Each env group gathers moments of its own; at the fragment's end they are merged in the order
// of the groups, and they count from the next fragment on. (VecNormalize updates after every step of all environments,
// which would make the numbers depend on how environments are spread over replicas.)
//
// Threads: Normalizers are read by many threads during a rollout, and written by one between rollouts. Where sampling
// and learning happen at the same time, each rollout worker has a copy. Copying one to another of the same kind,
// merging and normalising ask for no memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/policy/policy_options.h"

namespace tandem::rl {

/// Count, mean and variance of a stream of vectors of size() elements, in float64.
///
/// Parts are gathered apart and merged (Chan, Golub, LeVeque 1979: "Updating formulae and a pairwise algorithm for
/// computing sample variances"), always in the same order, so that the result has the same bits wherever the parts were
/// gathered. Single-thread. add() and merge() take no memory.
class RunningMoments {
 public:
  explicit RunningMoments(std::size_t size = 0) : mean_(size, 0.0), m2_(size, 0.0) {}

  /// Elements of a vector, the number of vectors so far, and their mean (zero at first).
  [[nodiscard]] std::size_t size() const { return mean_.size(); }
  [[nodiscard]] double count() const { return count_; }
  [[nodiscard]] std::span<const double> mean() const { return mean_; }
  /// Population variance; 1 before anything was added.
  [[nodiscard]] double variance(std::size_t i) const { return count_ > 0 ? m2_[i] / count_ : 1.0; }

  /// Adds one vector of size() elements.
  template <typename Element>
  void add(const Element* row) {
    count_ += 1;
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      const double delta = static_cast<double>(row[i]) - mean_[i];
      mean_[i] += delta / count_;
      m2_[i] += delta * (static_cast<double>(row[i]) - mean_[i]);
    }
  }
  /// Adds everything that `other` saw. Throws InvariantError when sizes differ.
  void merge(const RunningMoments& other);
  void clear();

  /// The moments as 1 + 2 * size() numbers (count, means, sums of squared distances from the mean), and back.
  void append_numbers(std::vector<double>& to) const;
  void set_numbers(std::span<const double> numbers);

 private:
  // m2_: by element, the sum of squared distances from the mean (Welford's method).
  double count_ = 0;
  std::vector<double> mean_, m2_;
};

/// The moments that one env group gathered during a fragment.
struct NormalizerMoments {
  NormalizerMoments(const Spec& spec, const NormalizerOptions& options);
  void clear();
  /// Appends the numbers of all moments, of the leaves first.
  void append_numbers(std::vector<double>& to) const;

  /// By leaf; empty unless observations are normalised.
  std::vector<RunningMoments> observation;
  /// Moments of one element: the discounted return after each step.
  RunningMoments discounted_return;
};

/// The statistics of a run that normalise observations and rewards. What policies see is float32. Of float64 leaves the
/// mean is subtracted in float64 before that, so that numbers which float32 does not tell apart become different ones.
class Normalizers {
 public:
  /// Throws ConfigError when observations are to be normalised and a leaf is not of floats, naming it.
  Normalizers(const Spec& spec, const NormalizerOptions& options);

  [[nodiscard]] const NormalizerOptions& options() const { return options_; }

  /// Adds the moments of a group. To be called for all groups in their order, then finish_merge().
  void merge(const NormalizerMoments& group);
  /// Makes the merged statistics those that normalise from now on.
  void finish_merge();

  /// Writes `rows` normalised rows of leaf `leaf` from `raw` to `out`; they may be the same memory.
  void normalize(std::size_t leaf, const float* raw, float* out, std::int64_t rows) const;
  /// Of a float64 leaf, into other memory.
  void normalize(std::size_t leaf, const double* raw, float* out, std::int64_t rows) const;
  /// The reward as the learner sees it: divided by the standard deviation of discounted returns and clipped, or as it
  /// is when rewards are not scaled.
  [[nodiscard]] float scale_reward(double reward) const;
  /// The factor that it multiplies by.
  [[nodiscard]] double reward_factor() const { return options_.rewards ? reward_scale_ : 1; }

  /// Whether a leaf is of float64.
  [[nodiscard]] bool is_wide(std::size_t leaf) const { return is_wide_[leaf]; }
  /// Mean and standard deviation (with epsilon) of a leaf, for exporting: as float32, or as float64 of a leaf of that.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> mean_and_std(std::size_t leaf) const;
  /// The mean, and the number that normalize() multiplies by, to the bit: the inverse of that deviation.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> mean_and_inverse_std(std::size_t leaf) const;

  /// state() copies all moments, by name, as float64. load() takes them back; it throws CheckpointError naming what is
  /// missing or of another size.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> state() const;
  void load(const std::vector<std::pair<std::string, at::Tensor>>& state);

 private:
  template <typename Self, typename Work>
  static void for_each_in_use(Self& self, const Work& work);

  NormalizerOptions options_;
  // Of float64, by leaf.
  std::vector<bool> is_wide_;
  // Merged so far, and what finish_merge() made of it: by leaf and element, in float32; of wide leaves in float64, and
  // empty of others.
  NormalizerMoments moments_;
  std::vector<std::vector<float>> mean_, inverse_std_;
  std::vector<std::vector<double>> wide_mean_, wide_inverse_std_;
  double reward_scale_ = 1;
};

}  // namespace tandem::rl
