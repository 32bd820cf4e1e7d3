// app/commands/tune_runs.h: what `tandem tune` measures: short runs of `tandem train` in a temporary folder.
//
// Threads: the main one.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/app/tune/measurement.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// Environment steps of an update of such a run.
[[nodiscard]] std::int64_t steps_of_update(const TrainOptions& options);

class TuneRuns {
 public:
  /// Both outlive it. Throws RunError when the system has no folder for the runs.
  TuneRuns(const rl::EnvRegistry& environments, const StopSignals& signals);
  /// Removes the folder. A second Ctrl-C, which ends the process at once, leaves it.
  ~TuneRuns();
  TuneRuns(const TuneRuns&) = delete;
  TuneRuns& operator=(const TuneRuns&) = delete;

  /// Trains for `env_steps`, or a little more where updates do not end there; at least some updates. Nothing when a
  /// signal ended it before. Throws as train().
  [[nodiscard]] std::optional<RunSample> run(const Configuration& configuration, std::int64_t env_steps) const;

  /// How many environment steps take about so many measured seconds, found out with runs that become longer. Nothing
  /// when a signal came.
  [[nodiscard]] std::optional<std::int64_t> steps_in(const Configuration& configuration, double seconds) const;

 private:
  void remove_folder() const;

  const rl::EnvRegistry& environments_;
  const StopSignals& signals_;
  std::filesystem::path folder_;
};

}  // namespace tandem::app
