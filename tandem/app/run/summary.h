// app/run/summary.h: summary.json, how a run went: written at its end, whether it was finished, stopped or failed.
//
// It is one line of JSON. Rank 0 writes it, and reading it needs no lock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/run/update_metrics.h"

namespace tandem::app {

/// Work of one replica.
struct ReplicaUsage {
  std::int64_t rows = 0;  // that it learned from, every pass counted
  double thread_cpu_s = 0;
  // Gradients that it offered, and of them those that were dropped; updates by others that each came late by.
  std::int64_t gradients = 0, dropped = 0;
  std::int64_t applied = 0;  // of the accepted ones; the rest is of a step that was not made
  double staleness_mean = 0;
  double waited_s = 0;  // for other replicas and for their gradients
  std::int64_t staleness_max = 0;
};

/// One figure over the steps of a run. Least, mean and largest value; all are zero before the first step.
struct OverSteps {
  double min = 0, mean = 0, max = 0;
};

/// The optimizer steps that this process made, where gradients may be dropped.
struct StepSummary {
  std::int64_t made = 0;
  OverSteps gradients = {};        // gradients that a step was made of
  OverSteps effective_batch = {};  // rows that these gradients were of
};

/// How the run came to its end. kFailed: by an error; after its last checkpoint it is lost.
enum class RunEnd { kFinished, kStopped, kFailed };
/// "finished", "stopped" or "failed".
[[nodiscard]] const char* name_of(RunEnd end);  // as in summary.json

/// Whether the run has the numbers of an uninterrupted one.
enum class ResumeExactness { kNeverResumed, kExact, kInexact };

/// Equal hashes mean that the parameters, or the whole states, of two runs are the same bit by bit.
struct Summary {
  std::string algo, env, devices;
  std::int64_t seed = 0, shards = 0, total_steps = 0;
  RunEnd end = RunEnd::kFinished;
  /// Of a run that an evaluation ended before its last step: why, as a part of a sentence, and the mean return that was
  /// reached; nothing elsewhere.
  std::string reason = {};
  double reached_return = 0;
  ResumeExactness resumed = ResumeExactness::kNeverResumed;
  UpdateMetrics last = {};                          // wall_s: as in a line of metrics.jsonl
  std::optional<std::int64_t> solved_at_env_steps;  // when episode_return_mean first reached the threshold
  std::string failure = {};                         // of a run that failed: what the error said
  std::string params_sha256, state_sha256;          // empty when it failed
  std::optional<StepSummary> steps = {};            // none where no gradient may be dropped
  double peak_rss_mb = 0;
  std::vector<ReplicaUsage> replicas;
  std::string torch, cpu;  // version, and instruction set: within these the same numbers come again
  // Learner steps by policy lag: 0, 1, ... and the last for all larger ones; of this process. Empty where it has none.
  std::vector<std::int64_t> policy_lag_histogram = {};
};

/// One line of JSON, without its end.
[[nodiscard]] std::string to_json(const Summary& summary);

}  // namespace tandem::app
