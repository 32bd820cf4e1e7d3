// app/train/run_observer.h: functions of a program's own that are called while a run trains, to draw, to log elsewhere,
// to keep what a run folder does not have.
//
//   int main(int argc, char** argv) {
//     const tandem::app::RunObserver observer{.on_update = [](const tandem::Record& line) {
//       std::cout << line.number("env_steps") << " " << line.number("episode_return_mean") << "\n";
//     }};
//     return tandem::app::run_program(argc, argv, tandem::rl::EnvRegistry::native(), observer);
//   }
//
// Order: after each update on_episode for each episode that has ended, then on_update, then on_checkpoint if one was
// written. A checkpoint with a replay is written while the run goes on, and told of when it is whole: after a later
// update, before the next checkpoint, or at the end of the run. What the calls tell of is on the disk by then, and
// never taken back: a run that goes on when ranks die, or from an older checkpoint in a later process, makes updates
// again only where nobody was told of them in that process.
//
// Ranks: only the rank that leads calls them, for the whole run: the episodes are those of all ranks.
//
// Threads: the main one, between two updates; never two calls at once. Blocking: the training waits for them, and the
// other ranks as well, as long as their deadlines allow; workers of IMPALA and APPO sample on meanwhile.
//
// From within, anything may be read. The run's numbers do not depend on observers: they are given copies and constants.
// LibTorch's own settings (threads, default types) belong to the run and must stay as they are; no other training may
// be started. wants_stop() ends the run; in a program whose signals are the run's, std::raise(SIGTERM) does, too.
// wants_checkpoint() has its state written.
//
// Errors: an exception ends the run as failed, with its text in summary.json and the exit code of a RunError, on all
// ranks; the last checkpoint is then whole. Errors of Tandem's own types keep theirs.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "tandem/metrics/sink.h"
#include "tandem/rl/rollout/episodes.h"

namespace tandem::app {

/// A checkpoint that is complete on the disk. Later ones may remove it (checkpoint.keep_last).
struct SavedCheckpoint {
  std::filesystem::path folder;
  /// Those that the run had made.
  std::int64_t updates = 0, env_steps = 0;
  /// The mean return of the last 100 episodes; nothing before one has ended.
  std::optional<double> score = {};
};

/// Any of the functions may be empty: what nobody asks for costs nothing.
struct RunObserver {
  /// After each update: the names and numbers of its line in metrics.jsonl (docs/metrics.md), whether that line was
  /// written or not (log.every_updates). The record is valid during the call.
  std::function<void(const Record& line)> on_update = {};
  /// For each episode of an environment, in the order of their ends, the same on any number of replicas and ranks.
  /// Episode::row is the environment's number in the run.
  std::function<void(const rl::Episode& episode)> on_episode = {};
  /// After each checkpoint of the run folder's checkpoints/.
  std::function<void(const SavedCheckpoint& checkpoint)> on_checkpoint = {};
  /// Asked after each update, behind on_update and before a checkpoint of it: true ends the run in order, with a
  /// checkpoint and the same exit code as after a signal (kStopped). With one rank it ends after this update; with
  /// several after the next one, which the others may have begun. A wish is not taken back. May be called once more
  /// after a true one.
  std::function<bool()> wants_stop = {};
  /// What log.txt calls a true answer of wants_stop(): "STOP_WISH: the run stops after update 3".
  std::string stop_wish = "the program's own wants_stop()";
  /// Asked after wants_stop(): true has a checkpoint written, as one that checkpoint.every_updates asks for. With one
  /// rank it is of this update; with several of the next one, if they do not lose a rank before. Each update asks anew.
  std::function<bool()> wants_checkpoint = {};

  [[nodiscard]] bool is_empty() const {
    return !on_update && !on_episode && !on_checkpoint && !wants_stop && !wants_checkpoint;
  }
};

}  // namespace tandem::app
