// rl/algo/impala/trajectory_output.h: a policy's output for a trajectory, and the numbers of a loss, for the losses on
// V-trace.
//
// Threads: any.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tandem/learner/replayed_loss.h"
#include "tandem/model/distribution/distribution.h"
#include "tandem/rl/algo/impala/impala_loss.h"
#include "tandem/rl/algo/impala/impala_options.h"
#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Has gradients unless they were switched off. Rows that only bootstrap have a value and no distribution.
struct TrajectoryOutput {
  std::unique_ptr<model::Distribution> distribution;  // of T * N rows
  at::Tensor log_prob;                                // [T, N], of the actions taken; of decisions [C]
  at::Tensor value;                                   // [T + 1, N]; of decisions [C + B]
};
/// `policy` is a RecurrentActorCritic where the options have a sequence_length.
/// One forward pass over all rows, the bootstrapping ones included, whose value() has gradients that losses must not
/// use.
[[nodiscard]] TrajectoryOutput output_of(ActorCritic& policy, const TrajectoryView& seen, const ImpalaOptions& options);

/// Stacks the numbers of a loss in one tensor on the device. `means`: scalars of policy_loss, value_loss, entropy,
/// approx_kl and cut. `error`: value target less value.
/// Explained variance is left as two variances, since a division would have to look at a number on the host.
[[nodiscard]] at::Tensor numbers_on_device(std::vector<at::Tensor> means, const at::Tensor& error,
                                           const at::Tensor& value_target);
/// Reads the stacked numbers on the host. `rows`: of the shard.
[[nodiscard]] ImpalaNumbers numbers_of(std::int64_t rows, std::span<const double> numbers);
/// Makes a ShardLoss of a loss that left its numbers on the device: waits for the device, and writes them to `numbers`.
[[nodiscard]] learner::ShardLoss read_numbers(const learner::DeviceLoss& made, std::int64_t rows,
                                              ImpalaNumbers& numbers);

}  // namespace tandem::rl
