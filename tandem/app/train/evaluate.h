// app/train/evaluate.h: plays episodes with the policy of a checkpoint.
//
// Evaluation runs on the calling thread and on the CPU, whatever devices the training had. It blocks until all episodes
// have ended, so an environment that never ends an episode never returns.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tandem/app/config/train_options.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/policy/policy_options.h"

namespace tandem::app {

/// In the order of the episodes' numbers; returns in the environment's own rewards. Element e of both vectors is
/// episode e; lengths count environment steps.
struct Evaluation {
  std::vector<double> returns;
  std::vector<std::int64_t> lengths;
};

/// Plays `episodes` episodes, with the most probable actions or with drawn ones. Episode e has a start of its own,
/// decided by `seed` and e alone. `options`: those of the checkpoint's run. Throws ConfigError for an unknown
/// environment or no episodes, CheckpointError when the checkpoint does not fit, EnvError.
[[nodiscard]] Evaluation evaluate(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                  const rl::EnvRegistry& environments, rl::Acting acting, std::int64_t episodes,
                                  std::uint64_t seed);

/// How many environments play so many episodes. Throws ConfigError for none.
[[nodiscard]] std::int64_t episodes_at_once(std::int64_t episodes);
/// Calls `play` for the episodes in turn, as many at a time: with a seed for each environment, and how many of the
/// first of these count.
void for_each_round(std::int64_t episodes, std::uint64_t seed,
                    const std::function<void(std::span<const std::uint64_t> seeds, std::size_t count)>& play);

/// Returns the model's own tensors of a policy's state, without those of the optimizer and of moving averages.
[[nodiscard]] model::NamedTensors model_part(const model::NamedTensors& state);

/// The policy of a checkpoint with its parameters and buffers, in eval mode on the CPU, and the run's normalisers.
struct TrainedPolicy {
  std::shared_ptr<rl::ActorCritic> policy;
  rl::Normalizers normalizers;
};
/// Throws CheckpointError when the checkpoint does not fit the model.
[[nodiscard]] TrainedPolicy load_policy(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                        const rl::Spec& spec);

}  // namespace tandem::app
