// app/plot/run_picture.h: the learning curves of runs.
//
// Threads: free functions. Errors: those of reading a run's files and of write_chart().
//
// It reads config.yaml, metrics.jsonl and summary.json of each run and changes none of them.
#pragma once
#include <optional>
#include <vector>

#include "tandem/app/plot/chart.h"
#include "tandem/app/run/run_folder.h"

namespace tandem::app {

struct PlottedRun {
  RunPaths paths;
  std::optional<double> threshold = {};  // the return at which its task counts as solved
};

/// One curve a run: episode_return_mean over env_steps. Runs are told apart by their seed where that is what differs,
/// else by their folder. The threshold is shown when all runs have the same. A run that has no metrics yet has an empty
/// curve. `runs` must not be empty (InvariantError).
[[nodiscard]] Chart chart_of(const std::vector<PlottedRun>& runs);

/// Writes curve.png of a run, with what its summary.json says where that is there.
void draw_run(const RunPaths& paths, std::optional<double> threshold);

}  // namespace tandem::app
