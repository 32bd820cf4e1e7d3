// app/train/record_failure.h: that a run has failed, written by a process that has neither the run nor its record any
// more: the ranks were lost to each other and those that are left could not meet.
//
// Threads: single-thread.
//
// Throws nothing of its own: it is called while another error is under way, and that error is the one to report.
#pragma once
#include <filesystem>
#include <string>

#include "tandem/app/config/train_options.h"
#include "tandem/app/train/run_checkpoint.h"

namespace tandem::app {

/// Makes summary.json, status.json and log.txt say that the run failed and why, with the figures of the last line of
/// metrics.jsonl and `progress`. Leaves the folder as it is when its status says that the run has ended already, or
/// when another process holds it: that one goes on with the run. A disk that refuses is told to the log, if that can be
/// written.
void record_failure(const std::filesystem::path& folder, const TrainOptions& options, const RunProgress& progress,
                    const std::string& why);

}  // namespace tandem::app
