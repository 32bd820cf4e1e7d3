// rl/policy/running_moments.h: count, mean and variance of a stream of vectors, in float64.
//
// Parts are gathered apart and merged (Chan, Golub, LeVeque 1979: "Updating formulae and a pairwise algorithm for
// computing sample variances"), always in the same order, so that the result has the same bits wherever the parts were
// gathered.
//
// Threads: single-thread. Memory: taken when it is made; add() and merge() take none.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace tandem::rl {

/// Moments of vectors of size() elements.
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
  [[nodiscard]] std::vector<double> numbers() const;
  void append_numbers(std::vector<double>& to) const;
  void set_numbers(std::span<const double> numbers);

 private:
  // m2_: by element, the sum of squared distances from the mean (Welford's method).
  double count_ = 0;
  std::vector<double> mean_, m2_;
};

}  // namespace tandem::rl
