// Faults of all runs are collected before a picture is drawn, so that a user mends them at once.
#include <iostream>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/faults.h"
#include "tandem/app/config/configuration.h"
#include "tandem/app/plot/run_picture.h"
#include "tandem/app/run/seed_folders.h"
#include "tandem/app/train/recorded_plugins.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
ExitCode run_command(const PlotCommand& command, const rl::EnvRegistry& environments) {
  std::vector<PlottedRun> runs;
  Faults faults;
  const std::filesystem::path into = command.picture.parent_path();
  if (!into.empty() && !std::filesystem::is_directory(into))
    faults.add(concat("--output ", command.picture.string(), ": there is no folder ", into.string()));
  for (const std::filesystem::path& folder : command.runs) {
    faults.collect([&] {
      std::vector<RunPaths> found = seed_runs(folder);  // a folder of --seeds stands for its runs
      if (found.empty()) found.push_back(find_run(folder));
      for (const RunPaths& paths : found) {
        const TrainOptions options = read_recorded(paths.config());
        runs.push_back({paths, threshold_of_record(environments, {options, paths.config(), {}})});
      }
    });
  }
  faults.raise();
  const std::vector<Chart> charts = charts_of(runs, command.options);
  for (const Chart& chart : charts) {
    for (const Curve& curve : chart.curves) {
      if (!curve.points.empty()) continue;
      faults.add(concat(chart.title, charts.size() + chart.curves.size() > 2 ? concat(", ", curve.label) : "",
                        ": there is no value of ", command.options.metric.value_or("episode_return_mean"),
                        " yet, so there is nothing to draw"));
    }
  }
  faults.raise();
  write_charts(charts, command.picture);
  std::cout << printable(command.picture.string()) << "\n";
  return ExitCode::kDone;
}

}  // namespace tandem::app
