#include "tandem/rl/policy/running_moments.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {

// With n vectors in all and `delta` between the two means, the mean moves by delta's share of the other's vectors, and
// the sums of squares grow by what the means differ.
void RunningMoments::merge(const RunningMoments& other) {
  TANDEM_CHECK(other.size() == size(), "moments of ", other.size(), " into ", size(), " elements");
  if (other.count_ == 0) return;
  const double total = count_ + other.count_;
  for (std::size_t i = 0; i < size(); ++i) {
    const double delta = other.mean_[i] - mean_[i];
    mean_[i] += delta * (other.count_ / total);
    m2_[i] += other.m2_[i] + delta * delta * (count_ * other.count_ / total);
  }
  count_ = total;
}

void RunningMoments::clear() {
  count_ = 0;
  std::fill(mean_.begin(), mean_.end(), 0.0);
  std::fill(m2_.begin(), m2_.end(), 0.0);
}

std::vector<double> RunningMoments::numbers() const {
  std::vector<double> all;
  append_numbers(all);
  return all;
}

void RunningMoments::append_numbers(std::vector<double>& to) const {
  to.push_back(count_);
  to.insert(to.end(), mean_.begin(), mean_.end());
  to.insert(to.end(), m2_.begin(), m2_.end());
}

void RunningMoments::set_numbers(std::span<const double> numbers) {
  TANDEM_CHECK(numbers.size() == 1 + 2 * size(), numbers.size(), " numbers for ", size(), " elements");
  count_ = numbers[0];
  std::copy_n(numbers.begin() + 1, size(), mean_.begin());
  std::copy_n(numbers.begin() + 1 + static_cast<std::ptrdiff_t>(size()), size(), m2_.begin());
}

}  // namespace tandem::rl
