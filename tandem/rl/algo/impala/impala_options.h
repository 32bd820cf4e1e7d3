// rl/algo/impala/impala_options.h: the numbers of IMPALA, and those that APPO has besides.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/pipeline/pipeline_options.h"
#include "tandem/rl/algo/learning_options.h"
#include "tandem/rl/policy/kernels/compute.h"

namespace tandem::rl {

/// Whether sampling and learning happen at the same time: on threads, or inline, with the same numbers in every run.
using ImpalaExecution = pipeline::Execution;

/// A batch is made by one rollout worker: rollout_steps of its num_envs / workers environments. With several ranks, a
/// batch is made by one worker of each rank together.
/// Divided evenly: num_envs by workers, shards and splits, in this order; count_faults() says what does not fit.
struct ImpalaOptions {
  // Environments of the run, over all workers and ranks.
  int num_envs = 8;
  int rollout_steps = 32;
  ImpalaExecution execution = ImpalaExecution::kThreads;
  int workers = 2;  // rollout workers of each rank
  // The environments that a worker has of a shard are divided into so many splits, which take turns
  // (alternating_rollout.h).
  int splits = 1;
  // Batches that may wait before the workers do. A longer queue means older batches.
  int queue = 2;
  // Loaded batches beside the learner, the one that is learned from included.
  int buffers = 2;
  int loaders = 1;
  // How often the learner goes over each batch.
  int passes = 1;
  // The bound on the age of a batch, in learner steps. Without one, batches may have any age.
  std::optional<std::int64_t> max_policy_lag = {};
  // How that bound is kept: workers wait, or batches are dropped.
  pipeline::BeyondLag beyond_lag = pipeline::BeyondLag::kWait;
  // Learner steps from one line of metrics to the next.
  int batches_per_update = 8;

  double learning_rate = 5e-4;
  Schedule learning_rate_schedule = {};
  double adam_eps = 1e-5;
  std::optional<double> max_grad_norm = 0.5;
  double gamma = 0.99;
  TimeLimit time_limit = TimeLimit::kBootstrap;
  // Bounds of V-trace's ratios (vtrace.h). Advantages are weighted up to rho_clip as well.
  double rho_clip = 1, c_clip = 1;
  double entropy_coef = 0.01;
  double value_coef = 0.5;
  LossKernel kernel = LossKernel::kAuto;
  // The kernels multiply such numbers while learning; acting multiplies float32. V-trace's ratios, and with APPO those
  // of the target network, which is rounded alike, are off by what rounding does to a probability.
  Compute compute = Compute::kFloat32;
  // For policies that remember: the number of steps that gradients flow back through. A fragment is one sequence. Its
  // first state is the state that acting had there; the policy that learns computes all later ones. None for other
  // policies.
  std::optional<int> sequence_length = {};
  // For policies that remember: steps at the beginning of each fragment that only bring its state up to date with the
  // policy that learns. They are not learned from, and gradients do not reach them. Fewer than rollout_steps.
  int burn_in = 0;
  // Seconds without a batch after which the learner gives up.
  std::int64_t learner_queue_timeout = 300;
  // Seconds that collecting a fragment, copying a batch or a learner step may take.
  std::int64_t stall_timeout = 300;

  [[nodiscard]] std::int64_t batch_rows() const { return std::int64_t{num_envs} / workers * rollout_steps; }
};

/// The largest value of mu / pi_T; larger ones are cut to it, see impala_loss.h.
/// IMPACT bounds the ratio in this way, too.
inline constexpr double kMostCorrection = 2;

/// APPO's numbers beside ImpalaOptions.
/// ImpalaRun checks them; all but kl_coef must be above 0.
struct AppoOptions {
  // The probability ratio counts from 1 - clip_range to 1 + clip_range.
  double clip_range = 0.2;
  // The weight of KL(target || policy) in the loss; 0 leaves it out.
  double kl_coef = 0;
  // Learner steps after which the target network takes the policy's weights.
  int target_update_steps = 4;
};

/// Whether the counts fit each other. They are at least 1. `shards` of a batch have whole environments;
/// `least_shards`: how few of them may be proposed, the learner's replicas.
[[nodiscard]] inline std::vector<CountFault> count_faults(const ImpalaOptions& options, std::int64_t shards = 1,
                                                          std::int64_t least_shards = 1) {
  std::vector<CountFault> faults;
  const std::int64_t batch_envs = options.num_envs / options.workers;
  if (options.num_envs % options.workers != 0) {
    const int below = options.num_envs / options.workers * options.workers;
    faults.push_back({"num_envs", concat(options.num_envs),
                      concat("does not divide among ", options.workers, " rollout workers; ",
                             below > 0 ? concat(below, " or ") : "", below + options.workers, " would")});
  } else if (batch_envs % shards != 0) {
    const std::string fewer = nearest_divisors(batch_envs, shards, 1, least_shards);
    faults.push_back({"num_envs", concat(options.num_envs),
                      concat("gives a batch the ", batch_envs, batch_envs == 1 ? " environment" : " environments",
                             " of one rollout worker, which do not divide into ", shards, " shards; ",
                             nearest_multiples(shards * options.workers, options.num_envs), " would",
                             fewer.empty() ? "" : concat(", or shards: ", fewer))});
  } else if (const std::int64_t shard_envs = batch_envs / shards; shard_envs % options.splits != 0) {
    faults.push_back({"splits", concat(options.splits),
                      concat("does not divide the ", shard_envs, shard_envs == 1 ? " environment" : " environments",
                             " that a rollout worker has of a shard (num_envs ", options.num_envs, " / ",
                             options.workers, " workers / ", shards, shards == 1 ? " shard); " : " shards); ",
                             nearest_divisors(shard_envs, options.splits), " would, or num_envs: ",
                             nearest_multiples(shards * options.workers * options.splits, options.num_envs))});
  }
  if (options.loaders > options.buffers) {
    faults.push_back({"loaders", concat(options.loaders),
                      concat("is more than the ", options.buffers, " buffers to load into; at most ", options.buffers,
                             " would work")});
  }
  if (options.c_clip > options.rho_clip) {
    faults.push_back({"c_clip", concat(options.c_clip),
                      concat("is more than rho_clip, ", options.rho_clip, ", which V-trace does not allow")});
  }
  return faults;
}

}  // namespace tandem::rl
