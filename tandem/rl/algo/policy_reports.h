// rl/algo/policy_reports.h: what the policies of a run with several agents did, put together.
//
// Threads: any.
#pragma once
#include <string>
#include <vector>

#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {

/// Adds the work for one policy, by replica, to that for the others.
void add_work(const std::vector<learner::ReplicaTeam::Work>& its, std::vector<learner::ReplicaTeam::Work>& all);

/// Returns the means over the policies that are trained, and the sums of their times.
/// Policies that made no step of the update have no part. NaN when none made one.
[[nodiscard]] LearnReport mean_of(const std::vector<PolicyReport>& policies);
/// How the gradients of one policy are computed, in a sentence.
struct GradientsOfPolicy {
  std::string name, by;
};
/// Returns TrainingRun::gradients_by() for all of them: the first sentence, and for others only what differs.
[[nodiscard]] std::string gradients_by(const std::vector<GradientsOfPolicy>& policies);

}  // namespace tandem::rl
