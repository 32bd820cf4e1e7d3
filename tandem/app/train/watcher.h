// app/train/watcher.h: calls the functions of a RunObserver as the training comes along.
//
// The training says when an update was made and its line is written, and when a checkpoint is whole on the disk; the
// episodes of an update are told before it. Rank 0 has a watcher, where somebody watches.
//
// Threads: single-thread, the main one, between two updates. Blocking: as long as the observer takes.
// Ownership: the observer and the run outlive it.
// Errors: what an observer throws becomes a RunError that names the function; errors of Tandem's own types keep theirs.
#pragma once
#include <exception>
#include <functional>
#include <vector>

#include "tandem/app/train/run_observer.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::app {

/// Episodes end in the middle of an update, which may still fail and be made again; so they are kept until it is over.
class Watcher {
 public:
  Watcher(const RunObserver& observer, rl::TrainingRun& run) : observer_(observer) {
    if (observer_.on_episode) run.listen_to_episodes([this](const rl::Episode& episode) { ended_.push_back(episode); });
  }

  /// The update is made, and nobody goes back behind it. `line`: its figures.
  void updated(const Record& line) {
    const Span span("observer");
    tell_episodes();
    if (observer_.on_update) call("on_update", [&] { observer_.on_update(line); });
  }
  /// A checkpoint is complete; of one that is written beside the run, this may be some updates later.
  void saved(const SavedCheckpoint& checkpoint) const {
    const Span span("observer");
    if (observer_.on_checkpoint) call("on_checkpoint", [&] { observer_.on_checkpoint(checkpoint); });
  }
  /// Whether the observer has seen enough: the run is to end in order. Called after the others of an update, so that
  /// they decide about the update that they were told of.
  [[nodiscard]] bool wants_stop() const { return ask("wants_stop", observer_.wants_stop); }
  /// Whether the observer wants a checkpoint. Called after wants_stop().
  [[nodiscard]] bool wants_checkpoint() const { return ask("wants_checkpoint", observer_.wants_checkpoint); }
  /// The episodes that have ended since the last call.
  void tell_episodes() {
    for (const rl::Episode& episode : ended_) call("on_episode", [&] { observer_.on_episode(episode); });
    ended_.clear();
  }

 private:
  static bool ask(const char* name, const std::function<bool()>& question) {
    bool answer = false;
    if (question) call(name, [&] { answer = question(); });
    return answer;
  }
  template <typename Call>
  static void call(const char* name, const Call& function) {
    try {
      function();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw RunError(concat("the program's own ", name, "() failed: ", error.what()));
    } catch (...) {
      throw RunError(concat("the program's own ", name, "() threw something that is not a std::exception"));
    }
  }

  const RunObserver& observer_;
  std::vector<rl::Episode> ended_;
};

}  // namespace tandem::app
