#include "tandem/pipeline/policy_lag.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::pipeline {

void PolicyLag::add(std::int64_t lag) {
  TANDEM_CHECK(lag >= 0, "a batch from ", -lag, " steps in the future");
  ++count_;
  sum_ += lag;
  max_ = std::max(max_, lag);
  ++bins_[std::min(static_cast<std::size_t>(lag), kBins - 1)];
}

void PolicyLag::add(const PolicyLag& other) {
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
  for (std::size_t bin = 0; bin < kBins; ++bin) bins_[bin] += other.bins_[bin];
}

void PolicyLag::append_numbers(std::vector<double>& to) const {
  to.insert(to.end(), {static_cast<double>(sum_), static_cast<double>(max_)});
  for (const std::int64_t bin : bins_) to.push_back(static_cast<double>(bin));
}

void PolicyLag::set_numbers(std::span<const double, kNumbers> numbers) {
  sum_ = static_cast<std::int64_t>(numbers[0]);
  max_ = static_cast<std::int64_t>(numbers[1]);
  count_ = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    bins_[bin] = static_cast<std::int64_t>(numbers[2 + bin]);
    count_ += bins_[bin];
  }
}

double PolicyLag::mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }

}  // namespace tandem::pipeline
