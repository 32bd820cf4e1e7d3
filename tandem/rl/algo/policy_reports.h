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

/// What the policies that are trained learned on average, and how long all of it took; TrainingRun::gradients_by() of
/// policies with a sentence each.
[[nodiscard]] LearnReport mean_of(const std::vector<PolicyReport>& policies);
struct GradientsOfPolicy {
  std::string name, by;
};
[[nodiscard]] std::string gradients_by(const std::vector<GradientsOfPolicy>& policies);

}  // namespace tandem::rl
