// rl/algo/off_policy/off_policy_options.h: the numbers that all algorithms have which learn from a replay.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/algo/learning_options.h"
#include "tandem/rl/algo/schedule.h"
#include "tandem/rl/policy/kernels/compute.h"

namespace tandem::rl {

/// Whose achieved goal takes the place of the desired one in rows of environments with goals (rl/replay/hindsight.h).
enum class Hindsight { kNone, kFuture, kFinal, kEpisode };

/// When the environments of a turn make their steps.
enum class Sampling {
  // Before its optimizer steps, which may draw what the steps brought.
  kInTurn,
  // At the same time, on another thread: for environments that take long. Actions are chosen before the optimizer steps
  // of their time, and what they bring can be drawn one step later. So the numbers are others, and as reproducible.
  kBeside,
};

/// Sampling and learning take turns: each environment makes `train_every` steps, then there are `gradient_steps`
/// updates of rows drawn from the replay. Counts are totals over all shards, each of which has an equal part of them:
/// of the environments, of the replay and of the rows of an update.
struct OffPolicyOptions {
  // Environments of the run.
  int num_envs = 1;
  // Steps of each environment from one line of metrics to the next.
  // A multiple of train_every.
  int rollout_steps = 1000;
  // Steps of each environment between two turns of learning, and optimizer steps of a turn.
  int train_every = 1, gradient_steps = 1;
  Sampling sampling = Sampling::kInTurn;
  // Rows of an optimizer step.
  std::int64_t batch_size = 256;
  // Steps of environments that are remembered; then the oldest are overwritten.
  std::int64_t replay_size = 1'000'000;
  // A folder in which a file of each shard, without a name, has them; nothing: memory has.
  std::optional<std::filesystem::path> replay_folder = {};
  // Environment steps before the first optimizer step, with actions drawn evenly from the action space.
  std::int64_t learning_starts = 10'000;
  // The discount of rewards a step later.
  double gamma = 0.99;
  // Rewards that are summed before a target is bootstrapped (Sutton 1988; n of Rainbow).
  int n_step = 1;
  // The share of the way that target networks go to the networks that learn, every target_every optimizer steps.
  double tau = 0.005;
  int target_every = 1;
  // All learning rates follow it: the one of the algorithm's section, to which others keep their ratio.
  Schedule learning_rate_schedule = {};
  double adam_eps = 1e-8;
  // Gradients of a step are scaled down to this norm; nothing: never.
  std::optional<double> max_grad_norm = {};
  // Proportional prioritisation (Schaul et al. 2016): rows are drawn with a probability proportional to their last
  // error to this power; 0: all alike. `priority_beta` corrects for it, and grows to 1 over the run.
  double priority_alpha = 0, priority_beta = 0.4;
  // Hindsight experience replay (Andrychowicz et al. 2017): of hindsight_goals + 1 rows all but one are learned from as
  // if they had sought a goal that was achieved.
  Hindsight hindsight = Hindsight::kNone;
  int hindsight_goals = 4;
  // Kernels for losses and gradients where there are some; kRecorded is none of the choices here.
  LossKernel kernel = LossKernel::kAuto;
  // The kernels' products of matrices multiply these numbers while learning; what acts multiplies float32. Those of
  // bfloat16 need the kernels and a processor that has them.
  Compute compute = Compute::kFloat32;
  // Seconds that a step of an env group may take.
  std::int64_t stall_timeout = 300;

  /// Environment steps between two turns of learning.
  [[nodiscard]] std::int64_t steps_of_turn() const { return std::int64_t{num_envs} * train_every; }
  /// Environment steps from one line of metrics to the next.
  [[nodiscard]] std::int64_t steps_of_update() const { return std::int64_t{num_envs} * rollout_steps; }
};

/// Returns what does not go together in counts that are in range each.
[[nodiscard]] inline std::vector<CountFault> count_faults(const OffPolicyOptions& options, int shards, int replicas) {
  std::vector<CountFault> faults;
  const auto divide = [&](const char* key, std::int64_t count) {
    if (count % shards == 0) return;
    faults.push_back(
        {key, concat(count),
         concat("each of the ", shards, " shards has an equal part; use ", nearest_multiples(shards, count))});
  };
  if (shards < replicas)
    faults.push_back({"shards", concat(shards), concat("must be at least the replicas, which are ", replicas)});
  divide("num_envs", options.num_envs);
  divide("batch_size", options.batch_size);
  if (options.rollout_steps % options.train_every != 0) {
    faults.push_back({"train_every", concat(options.train_every),
                      concat("rollout_steps, ", options.rollout_steps, ", must be a multiple of it; use ",
                             nearest_divisors(options.rollout_steps, options.train_every))});
  }
  if (options.hindsight != Hindsight::kNone && options.sampling == Sampling::kBeside) {
    faults.push_back({"sampling", "beside",
                      "the environments are asked what steps are worth for other goals (hindsight), and cannot be "
                      "while they make a step; use in_turn"});
  }
  // A row needs its n steps, and the newest observation of an environment is no row.
  const std::int64_t least = std::int64_t{options.num_envs} * (options.n_step + 1);
  if (options.replay_size < least) {
    faults.push_back({"replay_size", concat(options.replay_size),
                      concat("must hold ", options.n_step + 1, " steps of each of ", options.num_envs,
                             " environments: at least ", least)});
  }
  if (options.learning_starts < least) {
    faults.push_back({"learning_starts", concat(options.learning_starts),
                      concat("there is nothing to draw before each environment has made ", options.n_step + 1,
                             " steps: at least ", least)});
  }
  return faults;
}

}  // namespace tandem::rl
