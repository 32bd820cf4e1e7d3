// app/run/requeue.h: puts this process's Slurm job back into the queue.
//
// Threads: single-thread.
//
// Blocking: waits for scontrol at most `patience`, then kills it. The environment variable SLURM_JOB_ID alone decides
// whether the process counts as a job of Slurm.
#pragma once
#include <chrono>

namespace tandem::app {

enum class Requeued {
  kDone,
  kNotUnderSlurm,  // SLURM_JOB_ID is not set: there is no job
};

/// Runs `scontrol requeue $SLURM_JOB_ID`, by PATH, and waits until it has ended. Slurm then ends what is left of the
/// job: call it last. Throws RunError when scontrol cannot be started, fails, or has not ended within `patience`.
[[nodiscard]] Requeued requeue_job(std::chrono::milliseconds patience = std::chrono::seconds(20));

}  // namespace tandem::app
