// rl/algo/training_run.h: what every algorithm's run is to the program that trains it, saves it and reports of it.
//
// Every rank of a run has such an object and calls the same functions. Threads: one thread at a time.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/learner/replica_team.h"
#include "tandem/learner/state_parts.h"
#include "tandem/metrics/sink.h"
#include "tandem/pipeline/pipeline_stats.h"
#include "tandem/rl/env/spec.h"
#include "tandem/rl/rollout/episodes.h"
#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {

/// A checkpoint that an earlier build wrote, and from which no settings let this one go on. The message says which
/// build can.
class OutdatedCheckpoint : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// What every policy's learning tells: means over rows, or sums, as the struct says that has them.
struct Losses {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;

  Losses& operator+=(const Losses& other);
  Losses& operator/=(double count);
};
/// The members with their names in metrics, in the order in which they are written.
inline constexpr std::array<std::pair<const char*, double Losses::*>, 5> kLosses{{
    {"policy_loss", &Losses::policy_loss},
    {"value_loss", &Losses::value_loss},
    {"entropy", &Losses::entropy},
    {"approx_kl", &Losses::approx_kl},
    {"clip_fraction", &Losses::clip_fraction},
}};
inline Losses& Losses::operator+=(const Losses& other) {
  for (const auto& [name, loss] : kLosses) this->*loss += other.*loss;
  return *this;
}
inline Losses& Losses::operator/=(double count) {
  for (const auto& [name, loss] : kLosses) this->*loss /= count;
  return *this;
}

/// Numbers of the learning in one update, over all shards of the run. All but the times are the same on every replica.
/// Losses are means over all minibatches; they and norms are NaN when no step was made.
struct LearnReport : Losses {
  // 1 - Var[target - value] / Var[target]; NaN when targets are all equal.
  double explained_variance = 0;
  // The mean over the minibatches, before clipping.
  double grad_norm = 0;
  double learning_rate = 0, clip_range = 0;  // clip_range: PPO has one
  double entropy_coef = 0, kl_coef = 0;      // weights of this update
  // Optimizer steps that were made.
  std::int64_t minibatches = 0;
  double load_seconds = 0, learn_seconds = 0, sync_seconds = 0;
  // Time of learning, waits for the other replicas included.
  double all_seconds = 0;
  // The part of all_seconds until gradients and statistics of all replicas were summed.
  double wait_seconds = 0;
};

/// How far env groups came in a rollout, of runs in which some may end early or rest.
struct RolloutReport {
  // Steps of each environment, by group. A group that rested has 0.
  std::vector<int> steps;
  // Environment steps that were not made.
  std::int64_t rows_cut = 0;
  // Time that the slowest group would have taken beyond the rollout's, at the speed that it had.
  double saved_seconds = 0;
};

/// The work of one rank in an update. The three times add up to its duration. In runs that sample and learn at the same
/// time they are those of the learner, which waits for batches while it does not learn.
struct RankReport {
  double sample_seconds = 0, learn_seconds = 0;  // of its slowest replica; waits for other ranks left out
  double wait_seconds = 0;                       // for other ranks and replicas, of the replica that waited least
  std::int64_t env_steps = 0;
  /// Means over the rows that the rank learned from; of PPO only, and none where it had no rows.
  struct Learning : Losses {
    double rows = 0;  // each pass counts
  };
  std::optional<Learning> learning = {};

  [[nodiscard]] double seconds() const { return sample_seconds + learn_seconds + wait_seconds; }
};

/// A rank's activity at a moment of an update; with several replicas, the first of these that any replica is in.
enum class Phase { kSample, kLearn, kWait };

/// One policy of a run that has several.
struct PolicyReport {
  std::string name;
  std::int64_t decisions = 0;           // of its agents, that it learned from in this update
  std::optional<LearnReport> learning;  // none: it is not trained
  double episode_return_mean = 0;       // of the last 100 episodes of its agents
  double episode_length_mean = 0;
  std::int64_t episodes = 0;  // of its agents, finished so far
};

/// A metric of the environment's own (rl/env/env_metrics.h). Episodes that were cut by a failure of the environment, or
/// that ended before the environment had the metric, have no value and no part in the mean.
struct MetricReport {
  std::string name;
  std::optional<double> mean;  // of the last 100 episodes; none before one has ended for which it is known
};

/// One update's numbers, over the whole run.
struct RunReport {
  LearnReport learning;            // times: of the slowest replica
  double sample_seconds = 0;       // of the slowest replica
  double episode_return_mean = 0;  // of the last 100 episodes, in the environment's own rewards
  double episode_length_mean = 0;
  std::int64_t episodes = 0;            // finished so far
  std::vector<MetricReport> metrics{};  // of the environment's spec, in its order
  std::vector<RankReport> ranks{};      // by rank; none of one rank that samples meanwhile
  std::optional<RolloutReport> rollouts{};
  std::optional<pipeline::PipelineReport> pipeline{};  // of runs that sample and learn at the same time
  std::vector<PolicyReport> policies{};                // of runs of several agents
  std::optional<learner::GradientReport> gradients{};  // see ReplicaTeam
  std::vector<std::pair<std::string, double>> own{};   // figures that this algorithm has besides
};

/// The numbers of a report by name, for any sink of tandem/metrics:
///
///     JsonlSink sink("metrics.jsonl");
///     while (run.env_steps() < total_steps) sink.write(rl::figures_of(run.update()));
///
/// They are the environment's own metrics (env/NAME), the losses and times of the update; then, where the report has
/// them, the figures of ranks (rank_NAME_min, _mean, _max), of rollouts that may end early, of the pipeline, of
/// gradients that may be dropped (steps_made, replica/K/NAME) and of policies (policy/NAME/...), and those that the
/// algorithm alone has. Times are in milliseconds. Groups of figures that the run does not have are left out. The
/// program writes the same names behind its own; the list of all names is in docs/metrics.md.
[[nodiscard]] Record figures_of(const RunReport& report);
/// What the names of an environment's own metrics begin with in a record.
inline constexpr const char* kEnvFigures = "env/";

class TrainingRun {
 public:
  virtual ~TrainingRun() = default;

  /// Learns on, until there is something to report. Collective; the report is the same on all ranks.
  virtual RunReport update() = 0;

  /// Whether update() has told of all that was learned; save() and the hashes may learn from what is on its way.
  [[nodiscard]] virtual bool all_reported() const = 0;
  /// Tells of the rest, where all_reported() is false and no update() is to follow. It is no update of its own.
  /// Collective.
  [[nodiscard]] virtual RunReport report_rest() { return {}; }

  [[nodiscard]] virtual std::int64_t updates() const = 0;
  [[nodiscard]] virtual std::int64_t env_steps() const = 0;
  [[nodiscard]] virtual const EpisodeWindow& episodes() const = 0;
  /// From now on `told` is called for each episode of an environment that has ended, of all ranks, within update(),
  /// report_rest(), save() and the hashes, on the caller's thread, in an order that is the same on any topology. It
  /// must not throw and not call the run. Throws ConfigError where an algorithm does not tell of single episodes.
  virtual void listen_to_episodes(std::function<void(const Episode&)> told);
  [[nodiscard]] virtual const Spec& spec() const = 0;
  /// Counts the replicas of all ranks.
  [[nodiscard]] virtual int replicas() const = 0;
  [[nodiscard]] virtual int shards() const = 0;
  [[nodiscard]] virtual const learner::Ranks& ranks() const = 0;
  /// This rank's present activity. May be called from any thread. Runs that sample and learn at the same time are
  /// always at kLearn.
  [[nodiscard]] virtual Phase phase() const { return Phase::kLearn; }
  /// What sampling noticed since the last call: sentences for the log of this rank.
  [[nodiscard]] virtual std::vector<std::string> take_remarks() { return {}; }
  /// Why another run with the same seed has other numbers, in a clause; empty when it has the same.
  [[nodiscard]] virtual std::string why_numbers_differ() const = 0;

  /// Names what computes losses and gradients, and if that is not the fastest way, says why: a sentence for the log.
  [[nodiscard]] virtual std::string gradients_by() const = 0;

  /// SHA-256 of the parameters' bytes in order.
  [[nodiscard]] virtual std::string params_sha256() = 0;
  /// SHA-256 of parameters, buffers, optimizer state and normalisers. Collective; the same on all ranks.
  [[nodiscard]] virtual std::string state_sha256() = 0;
  /// Work of every replica of the run so far. Collective.
  [[nodiscard]] virtual std::vector<learner::ReplicaTeam::Work> work() const = 0;

  /// For evaluation while the run goes on, which must not change its numbers, as save() may.
  /// Copies, on the CPU, of the parts of save() that playing needs: policies and normalisers, as they are after this
  /// update. Of this rank alone, not collective; changes nothing. Empty: this algorithm's policies cannot be played.
  [[nodiscard]] virtual learner::StateParts policies() { return {}; }

  /// All that a checkpoint needs, in parts. Collective; all ranks get all parts.
  [[nodiscard]] virtual learner::StateParts save() = 0;
  /// The same for a checkpoint that is written while the run goes on, which takes a moment however large the state is.
  /// `held`: names of the parts of the newest checkpoint of this run, which has gone on from there; the leader's are
  /// taken. Those that have not changed since are only named. Collective. Nothing: save() is fast enough.
  /// What is returned may be used by another thread, and after the run is gone.
  [[nodiscard]] virtual std::optional<learner::StateAside> save_aside(const std::set<std::string>& held);
  /// Goes on from there. Collective; `read_part` of rank 0 is asked. Throws CheckpointError naming what is missing or
  /// of another shape, OutdatedCheckpoint where an earlier build is the cause; the run is then of no further use.
  virtual RolloutWorker::Resumed load(const learner::ReadPart& read_part) = 0;
};

inline std::optional<learner::StateAside> TrainingRun::save_aside(const std::set<std::string>& /*held*/) {
  return std::nullopt;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): overriders keep it
inline void TrainingRun::listen_to_episodes(std::function<void(const Episode&)> /*told*/) {
  throw ConfigError("this algorithm does not tell of single episodes: leave on_episode out");
}

}  // namespace tandem::rl
