// app/commands/tune_runs.h: what `tandem tune` measures: short runs of `tandem train` in a temporary folder.
//
// Threads: the main one.
//
// Each run is a real training in one process, with log, checkpoints and summary, so its speed is that of `tandem
// train`. Runs follow each other; each replaces the folder of the one before.
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
/// Counts all batches from one line of metrics to the next.
[[nodiscard]] std::int64_t steps_of_update(const TrainOptions& options);

/// A temporary folder for the runs.
/// Made under TMPDIR, or /tmp without it. A signal that ends the process at once calls remove() from another thread.
class TuneFolder {
 public:
  /// Throws RunError when the system has none.
  TuneFolder();
  /// Removes it.
  ~TuneFolder() { remove(); }
  TuneFolder(const TuneFolder&) = delete;
  TuneFolder& operator=(const TuneFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Also while another thread writes there, whose files then find no place. Throws nothing.
  void remove() const;

 private:
  std::filesystem::path path_;
};

/// Measures one configuration at a time: a run beside another would measure both wrong.
class TuneRuns {
 public:
  /// All outlive it.
  TuneRuns(const rl::EnvRegistry& environments, const StopSignals& signals, const TuneFolder& folder)
      : environments_(environments), signals_(signals), folder_(folder) {}

  /// Trains for `env_steps`, or a little more where updates do not end there; at least some updates. Nothing when a
  /// signal ended it before. Throws as train().
  [[nodiscard]] std::optional<RunSample> run(const Configuration& configuration, std::int64_t env_steps) const;

  /// How many environment steps take about so many measured seconds, found out with runs that become longer. Nothing
  /// when a signal came.
  /// Returns whole updates, at least five. `seconds` must be above 0.
  [[nodiscard]] std::optional<std::int64_t> steps_in(const Configuration& configuration, double seconds) const;

 private:
  const rl::EnvRegistry& environments_;
  const StopSignals& signals_;
  const TuneFolder& folder_;
};

}  // namespace tandem::app
