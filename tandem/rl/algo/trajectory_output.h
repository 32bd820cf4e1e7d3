// rl/algo/trajectory_output.h: what a policy says of a trajectory, for the losses on V-trace.
//
// Threads: any.
#pragma once
#include <memory>
#include <vector>

#include "tandem/model/distribution.h"
#include "tandem/rl/algo/impala_loss.h"
#include "tandem/rl/algo/impala_options.h"
#include "tandem/rl/algo/trajectory.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

struct TrajectoryOutput {
  std::unique_ptr<model::Distribution> distribution;  // of T * N rows
  at::Tensor log_prob;                                // [T, N], of the actions taken; of decisions [C]
  at::Tensor value;                                   // [T + 1, N]; of decisions [C + B]
};
/// `policy` is a RecurrentActorCritic where the options have a sequence_length.
[[nodiscard]] TrajectoryOutput output_of(ActorCritic& policy, const TrajectoryView& seen, const ImpalaOptions& options);

/// `means`: scalars of policy_loss, value_loss, entropy, approx_kl and cut. `error`: value target less value.
[[nodiscard]] ImpalaNumbers numbers_of(const std::vector<at::Tensor>& means, const at::Tensor& error,
                                       const at::Tensor& value_target);

}  // namespace tandem::rl
