// learner/gradient_report.h: counts of the gradients of a run's replicas, and the sizes of its steps, for metrics and
// for people.
//
// Plain values.
// Only sync_replicas and asynchronous, which may drop or delay gradients, keep these counts.
#pragma once
#include <string>
#include <vector>

#include "tandem/sync/gradient_account.h"

namespace tandem::learner {

struct ReplicaGradients {
  sync::GradientTotals totals;  // since its team was made, or its state loaded
  double waited_seconds = 0;    // for other replicas and for their gradients, in steps that its Learner made
};

/// Every rank gets the same report; see ReplicaTeam::take_gradients().
struct GradientReport {
  std::vector<ReplicaGradients> replicas;  // of the run, in order
  sync::StepSizes sizes;                   // of the steps since the report before
};

/// A table with a row a replica, and a line about the steps of `all`. Ends with a line break.
[[nodiscard]] std::string table_of(const std::vector<ReplicaGradients>& replicas, const sync::StepSizes& all);

}  // namespace tandem::learner
