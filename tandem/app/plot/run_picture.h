// app/plot/run_picture.h: the learning curves of runs.
//
// Threads: free functions. Errors: those of reading a run's files and of write_charts().
//
// It reads config.yaml, metrics.jsonl and summary.json of each run and changes none of them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/plot/chart.h"
#include "tandem/app/run/run_folder.h"

namespace tandem::app {

struct PlottedRun {
  RunPaths paths;
  std::optional<double> threshold = {};  // the return at which its task counts as solved
};

/// The x axis: environment steps, seconds of training (of all processes of the run), or episodes.
enum class PlotAxis { kSteps, kTime, kEpisodes };

/// The choice of what is drawn of the runs, the same for all of them.
/// `metric`: a name of metrics.jsonl. Nothing: the mean return, and in the picture of one run that has several
/// policies that of each policy.
struct PlotOptions {
  std::optional<std::string> metric = {};
  PlotAxis x = PlotAxis::kSteps;
  std::optional<std::int64_t> half_window = {};  // as of Chart
};

/// A chart for each environment. Runs that differ in their seed alone are one curve, their mean with its 95 %
/// confidence interval, where all of them have values; runs that share no part of the axis are curves of their own.
/// labels_of() (run_groups.h) tells curves apart. Seeds of policies whose returns always sum to zero have a curve for
/// each policy. The threshold is shown where all runs of a chart have the same and the metric is a return of the
/// environment. A run that has no value yet has an empty curve. Throws ConfigError naming the metrics that there are
/// when a run has lines and none of them the metric. `runs` must not be empty (InvariantError).
[[nodiscard]] std::vector<Chart> charts_of(const std::vector<PlottedRun>& runs, const PlotOptions& options = {});

/// Writes curve.png of a run, with what its summary.json says where that is there.
void draw_run(const RunPaths& paths, std::optional<double> threshold);

}  // namespace tandem::app
