// sync/staleness_totals.h: what became of a replica's gradients over many steps.
//
// Threads: single-thread.
#pragma once
#include <algorithm>
#include <cstdint>

#include "tandem/sync/strategy.h"

namespace tandem::sync {

struct StalenessTotals {
  std::int64_t offered = 0, dropped = 0;  // gradients; the rest was applied
  std::int64_t sum = 0, most = 0;         // staleness of all that were offered
  double wait_seconds = 0;                // in steps, for others and for the sums

  void add(const StepReport& step) {
    wait_seconds += step.wait_seconds;
    if (step.weight == 0) return;  // nothing was offered
    ++offered;
    dropped += step.verdict == Verdict::kDropped ? 1 : 0;
    sum += step.staleness;
    most = std::max(most, step.staleness);
  }
  [[nodiscard]] double mean() const {
    return offered == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(offered);
  }
};

}  // namespace tandem::sync
