// app/train/train.h: runs a configuration in its folder, alone or as one of several ranks.
//
// Threads: train() and follow() run on the calling thread, and the run starts its own. Blocking: every update waits for
// all ranks; the deadlines of the ranks' group end such a wait when one is lost (PeerLost, DeadlineExceeded). The ranks
// decide together, between two updates, on a checkpoint, a stop or a new meeting.
#pragma once
#include <functional>
#include <optional>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/progress.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/app/run/run_log.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/app/run/summary.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/app/train/run_observer.h"
#include "tandem/base/error.h"
#include "tandem/learner/ranks.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// The places that a run writes to, and the signals that it obeys; all outlive the call. Only rank 0 has a place.
struct TrainPlace {
  RunFolder& folder;
  Progress& progress;
  RunLog& log;
  const StopSignals& signals;
  /// Ends the process of a run whose thread hangs: what it is part of cannot be destroyed. Does not return.
  std::function<void(const HungThread&)> end_process;
  /// The state of a run that goes on when ranks die, kept after every update; null in other runs. What
  /// exists in it comes before a checkpoint.
  KeptState* kept = nullptr;
  /// Called as its header says; null: nobody watches.
  const RunObserver* observer = nullptr;
  /// Where the run's clock starts (wall_s): seconds after the process started.
  double clock_from = 0;
};

/// How a run ended, and what any of its ranks was asked for by then: the same on all ranks. Only rank 0 gets the
/// struct; other ranks get the RunEnd.
struct Trained {
  Summary summary;
  StopRequest asked = StopRequest::kNone;
};

/// Trains until total_steps, or until a signal asks for a stop, looked at before the first update and after each; then
/// writes a checkpoint, summary.json and curve.png. Goes on from `from` where given; metrics.jsonl is cut back to it.
/// The summary says how the run ended. Throws ConfigError before anything was started; EnvError, CheckpointError or
/// another RunError when the run failed: the last checkpoint is then whole. After HungThread it does not return but
/// calls `end_process`. With several ranks this is rank 0's part, while all others follow(); a stop that is requested
/// of any stops all after the same update. Returns nothing when the ranks are to meet anew first, and all have kept the
/// same state. Where `place.kept` exists, the loss of another rank leaves the run's record as it is, to be gone on
/// with.
std::optional<Trained> train(const Configuration& configuration, const rl::EnvRegistry& environments,
                             const std::optional<model::Checkpoint>& from, const learner::Ranks& ranks,
                             const TrainPlace& place);

/// The part of the ranks other than 0, which write nothing. `options`: rank 0's; devices may be of their own. `kept`,
/// `end_process` and what is returned, as of train().
std::optional<RunEnd> follow(const TrainOptions& options, const rl::EnvRegistry& environments,
                             const learner::Ranks& ranks, const StopSignals& signals, KeptState* kept,
                             const std::function<void(const HungThread&)>& end_process);

}  // namespace tandem::app
