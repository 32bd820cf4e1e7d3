// app/train/evaluate.h: plays episodes with the policies of a checkpoint, of one agent or of several.
//
// Evaluation runs on the calling thread and on the CPU, whatever devices the training had. It blocks until every agent
// of every counted episode has ended, so an environment that never ends an episode never returns.
#pragma once
#include <cstdint>
#include <string>
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
struct Episodes {
  std::vector<double> returns = {};
  std::vector<std::int64_t> lengths = {};
};

/// An agent may end before the others; its return and its length stop there.
struct AgentEvaluation {
  std::string agent = {}, policy = {};  // their names
  Episodes played = {};
};

struct Evaluation {
  Episodes whole = {};                       // returns summed over the agents, lengths until the last one's end
  std::vector<AgentEvaluation> agents = {};  // in the environment's order; empty when it is one of a single agent
};

/// Plays `episodes` episodes, with the most probable actions or with drawn ones. Episode e has a start of its own,
/// decided by `seed` and e alone; actions are drawn from streams that `seed` decides. `options`: those of the
/// checkpoint's run. Throws ConfigError for an unknown environment or no episodes, CheckpointError when the checkpoint
/// does not fit, EnvError.
[[nodiscard]] Evaluation evaluate(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                  const rl::EnvRegistry& environments, rl::Acting acting, std::int64_t episodes,
                                  std::uint64_t seed);

/// A policy of a checkpoint with its parameters and buffers, in eval mode on the CPU, and the run's normalisers.
struct TrainedPolicy {
  std::shared_ptr<rl::ActorCritic> policy;
  rl::Normalizers normalizers;
};
/// `name` picks one of the policies of a run with several agents; it may be empty where there is but one. Throws
/// ConfigError naming those that there are, CheckpointError when the checkpoint does not fit the model.
[[nodiscard]] TrainedPolicy load_policy(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                        const rl::EnvRegistry& environments, const std::string& name);

}  // namespace tandem::app
