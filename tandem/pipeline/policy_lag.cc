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

double PolicyLag::mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }

}  // namespace tandem::pipeline
