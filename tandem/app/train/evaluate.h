// app/train/evaluate.h: plays episodes with the policies of a checkpoint, of one agent or of several.
//
// `tandem eval` plays the policies of a checkpoint, a run that evaluates itself (eval.every_steps) those that it has at
// that moment. Both play the same episodes with the same seed, so their numbers can be compared.
//
// Evaluation runs on the calling thread and on the CPU, whatever devices the training had. It blocks until every agent
// of every counted episode has ended, or was cut short after EvaluationOptions::most_steps.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tandem/app/config/train_options.h"
#include "tandem/learner/state_parts.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/policy_map.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/policy/policy_options.h"
#include "tandem/rl/rollout/agent_rows.h"

namespace tandem::app {

/// In the order of the episodes' numbers; returns in the environment's own rewards. Element e of both vectors is
/// episode e; lengths count environment steps.
struct Episodes {
  std::vector<double> returns = {};
  std::vector<std::int64_t> lengths = {};
  /// Of them, those that had not ended after the most steps; their returns and lengths are those until then.
  std::int64_t cut_short = 0;
};

/// An agent may end before the others; its return and its length stop there.
struct AgentEvaluation {
  std::string agent = {}, policy = {};  // their names
  Episodes played = {};
};

/// A metric of the environment's own (rl/env/env_metrics.h), by its name in the spec.
struct MetricValues {
  std::string name = {};
  /// One an episode that ended, in their order; none of those that were cut short, and where it is not known. So
  /// element e need not be episode e.
  std::vector<double> values = {};
};

struct Evaluation {
  Episodes whole = {};                       // returns summed over the agents, lengths until the last one's end
  std::vector<AgentEvaluation> agents = {};  // in the environment's order; empty when it is one of a single agent
  std::vector<MetricValues> metrics = {};    // in the order of the spec
};

/// A moment of an episode that is shown. Episodes count from 1. Step 0 is the begin; the return is that of the steps so
/// far, summed over the agents. At the end the environment is as it was before the next episode began.
struct ShownMoment {
  std::int64_t episode = 0, step = 0;
  double episode_return = 0;
  std::vector<double> agent_returns = {};  // of the same steps, in the environment's order; empty of a single agent
  bool is_end = false;
};
/// None are shown unless `episodes` is set. The first episodes of an evaluation, so many steps of each, are drawn:
/// `on_moment` gets their moments with what the environment draws of itself (EnvGroup::render()): of the steps those
/// whose number `every` divides, and the last one. Moments of episodes that are played at the same time come mixed.
struct ShownEpisodes {
  std::int64_t episodes = 0, steps = 0, every = 1;
  std::function<void(const ShownMoment& moment, rl::Canvas picture)> on_moment = {};
};

/// Episode e has a start of its own, decided by `seed` and e alone; actions are drawn from streams that `seed` decides.
struct EvaluationOptions {
  rl::Acting acting = rl::Acting::kMode;
  std::int64_t episodes = 100;
  std::uint64_t seed = 0;
  /// Of an episode, after which it is cut short: an environment need not have a time limit.
  std::int64_t most_steps = 100'000;
  /// The share of the run's steps that its environments are told (EnvGroup::set_progress()).
  double progress = 1;
  /// Called after each step of all environments with the episodes that are through and the steps made so far.
  std::function<void(std::int64_t episodes, std::int64_t steps)> on_step = [](std::int64_t, std::int64_t) {};
  /// Called with what a policy saw and decided, before the environments step; `policy`: its name.
  std::function<void(const std::string& policy, const rl::AgentRows& rows)> on_decisions = {};
  /// Changes nothing in what is played. What its function, on_decisions or on_step throw ends the evaluation and passes
  /// unchanged.
  ShownEpisodes shown = {};
};

/// Plays episodes with the most probable actions or with drawn ones. `read_part`: gives the parts of a run's state that
/// playing needs. `options`: those of the run; `environments`: as environments_of() gives them. Throws ConfigError for
/// an unknown environment, no episodes, or one that is shown and draws no pictures, CheckpointError when the parts do
/// not fit, EnvError.
[[nodiscard]] Evaluation evaluate(const learner::ReadPart& read_part, const TrainOptions& options,
                                  const rl::EnvRegistry& environments, const EvaluationOptions& how);
/// The parts of a checkpoint, which must outlive the function.
[[nodiscard]] learner::ReadPart parts_of(const model::Checkpoint& checkpoint);

/// The policies of a run; one agent's has no name. `environments`: as environments_of() gives them.
[[nodiscard]] rl::PolicyMap policies_of(const TrainOptions& options, const rl::EnvRegistry& environments);

/// A policy of a checkpoint with its parameters and buffers, in eval mode on the CPU, and its normalisers.
struct TrainedPolicy {
  std::shared_ptr<rl::ActorCritic> policy;
  rl::Normalizers normalizers;
};
/// `name` picks one of the policies of a run with several agents; it may be empty where there is but one. Throws
/// ConfigError naming those that there are, CheckpointError when the checkpoint does not fit the model.
[[nodiscard]] TrainedPolicy load_policy(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                        const rl::EnvRegistry& environments, const std::string& name);

}  // namespace tandem::app
