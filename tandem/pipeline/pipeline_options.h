// pipeline/pipeline_options.h: the choices and limits of a pipeline.
//
// Without LibTorch and threads: the program's configuration asks as well.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tandem/base/clock.h"

namespace tandem::pipeline {

class BatchClaims;
class StepPermits;

/// kThreads: every stage has a thread. kInline: the owner's thread runs all stages in a fixed order.
enum class Execution { kThreads, kInline };

/// How a bound on policy lag is kept.
enum class BeyondLag {
  kWait,  // rollout workers begin a batch only when it cannot become too old
  kDrop,  // batches that are too old are not learned from
};

/// The lag of a batch is measured at its first pass: learner steps made by then, less those that its policy had.
struct LagBound {
  std::int64_t steps = 0;  // most learner steps between a batch's policy and the first pass over it
  BeyondLag then = BeyondLag::kWait;
};

/// Counts are at least 1. Durations bound waits; none of them changes what is computed.
struct PipelineOptions {
  Execution execution = Execution::kThreads;
  int workers = 1;
  // The worker that makes the first batch. With kInline, the others follow in turn.
  int first_worker = 0;
  // Batches that may wait for a loader; when so many do, the workers wait.
  std::size_t queue = 16;
  // Threads that copy batches into buffers; at most as many as there are buffers.
  int loaders = 1;
  // How often the learner goes over each batch.
  int passes = 1;
  // Passes over the first batch. Each later batch gets one more, up to `passes`.
  int first_passes = 1;
  // Results that may wait for the owner; when so many do, the learner waits.
  std::size_t results = 16;
  /// The longest that the learner waits for a batch before it fails.
  Clock::duration starvation = std::chrono::seconds(300);
  /// The longest that one call of produce(), load() or learn() may last.
  Clock::duration stall = std::chrono::seconds(300);
  // The time that a call of learn() may take beyond `stall`, since it waits for other ranks.
  Clock::duration peers{0};
  /// The time that the threads have to return once all is over.
  Clock::duration grace = std::chrono::seconds(60);
  // Without a bound batches may have any age.
  std::optional<LagBound> lag_bound = {};
  // Permits of the learner's steps. Not owned; null when the learner needs none.
  StepPermits* permits = nullptr;
  // Every batch is claimed here before it begins. Not owned; null when produce() alone decides how many there are.
  BatchClaims* claims = nullptr;
};

}  // namespace tandem::pipeline
