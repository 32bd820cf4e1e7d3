#include "tandem/sync/data_parallel_report.h"

#include <limits>

namespace tandem::sync {

// A mean of no steps has no value, which a zero would hide in a curve.
std::vector<std::pair<std::string, double>> figures_of(const DataParallelReport& report) {
  const auto mean = [&](double value) { return report.steps > 0 ? value : std::numeric_limits<double>::quiet_NaN(); };
  return {{"sync/steps", static_cast<double>(report.steps)},
          {"sync/step_seconds", mean(report.mean.seconds)},
          {"sync/forward_seconds", mean(report.mean.forward_seconds)},
          {"sync/backward_seconds", mean(report.mean.backward_seconds)},
          {"sync/communication_seconds", mean(report.mean.communication_seconds)},
          {"sync/exposed_seconds", mean(report.mean.exposed_seconds)},
          {"sync/hidden_seconds", mean(report.mean.hidden_seconds)},
          {"sync/bytes", mean(report.mean.bytes)},
          {"sync/buckets", static_cast<double>(report.bucket_bytes.size())}};
}

}  // namespace tandem::sync
