// app/train/run_summary.h: what summary.json says of every run, however it ended.
//
// Threads: single-thread.
#pragma once
#include "tandem/app/config/train_options.h"
#include "tandem/app/run/summary.h"
#include "tandem/app/train/run_checkpoint.h"

namespace tandem::app {

/// From the settings, the progress and this process. Without the shards, the last update, and what the run itself
/// knows.
[[nodiscard]] Summary summary_of(const TrainOptions& options, const RunProgress& progress, RunEnd end);

}  // namespace tandem::app
