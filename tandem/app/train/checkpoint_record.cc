#include "tandem/app/train/checkpoint_record.h"

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"

namespace tandem::app {

CheckpointRecord::CheckpointRecord(const Configuration& configuration, const rl::TrainingRun& run, RunLog& log,
                                   const RunFolder& folder)
    : configuration_(configuration),
      run_(run),
      log_(log),
      folder_(folder),
      store_(folder.paths().checkpoints(),
             {.last = static_cast<int>(configuration.options.checkpoint.keep_last), .best = 1}),
      saved_at_(Clock::now()) {}

void CheckpointRecord::begin() {
  store_.discard_after(run_.updates());
  saved_at_ = Clock::now();
}

// Both intervals may be set; the one that is reached first counts.
bool CheckpointRecord::is_due(std::int64_t saved_updates) const {
  const CheckpointSettings& when = configuration_.options.checkpoint;
  if (when.every_updates && run_.updates() - saved_updates >= *when.every_updates) return true;
  return when.every_seconds && seconds_since(saved_at_) >= *when.every_seconds;
}

SavedCheckpoint CheckpointRecord::saved_now() const {
  SavedCheckpoint saved{.folder = {}, .updates = run_.updates(), .env_steps = run_.env_steps(), .score = {}};
  if (!run_.episodes().empty()) saved.score = run_.episodes().mean_return();
  return saved;
}

void CheckpointRecord::note(const SavedCheckpoint& saved) const {
  log_.debug(concat("checkpoint after update ", saved.updates));
}

SavedCheckpoint CheckpointRecord::write(learner::StateParts parts, const RunProgress& progress) {
  folder_.require_in_place();
  SavedCheckpoint saved = saved_now();
  saved.folder = save_run(store_, saved.updates, {.parts = std::move(parts), .kept = {}},
                          describe(run_, configuration_.options, progress, configuration_.yaml, saved.score));
  saved_at_ = Clock::now();
  note(saved);
  return saved;
}

// The thread gets all that it needs by value; the run goes on meanwhile.
void CheckpointRecord::start(learner::StateAside state, const RunProgress& progress) {
  TANDEM_CHECK(!writer_, "two checkpoints at once");
  on_its_way_ = saved_now();
  saved_at_ = Clock::now();
  writer_.emplace("checkpoint", [this, state = std::move(state), updates = on_its_way_.updates,
                                 info = describe(run_, configuration_.options, progress, configuration_.yaml,
                                                 on_its_way_.score)](const std::stop_token&) {
    const Span span("write checkpoint");
    folder_.require_in_place();
    on_its_way_.folder = save_run(store_, updates, state, info);
  });
}

std::optional<SavedCheckpoint> CheckpointRecord::written() {
  return writer_ && writer_->finished() ? wait() : std::nullopt;
}

// Also after a failure nothing is on its way any more.
std::optional<SavedCheckpoint> CheckpointRecord::wait() {
  if (!writer_) return std::nullopt;
  try {
    writer_->join();
  } catch (...) {
    writer_.reset();
    throw;
  }
  writer_.reset();
  note(on_its_way_);
  return on_its_way_;
}

}  // namespace tandem::app
