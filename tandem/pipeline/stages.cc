#include "tandem/pipeline/stages.h"

#include <optional>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::pipeline {
namespace {

// Makes one step of a stage, and ends the stage when it was the last. Errors name the stage.
Progress step_of(const Stage& stage, const Limits& limits) {
  try {
    const Progress progress = stage.step(limits);
    if (progress == Progress::kEnded) stage.ended();
    return progress;
  } catch (...) {
    rethrow_with(stage.name + ": ");
  }
}

}  // namespace

InlineStages::InlineStages(std::vector<Stage> stages, const Turns& turns)
    : stages_(std::move(stages)), ended_(stages_.size(), 0), turns_(turns) {
  TANDEM_CHECK(turns.count <= stages_.size(), turns.count, " of ", stages_.size(), " stages take turns");
  TANDEM_CHECK(turns.first < turns.count || turns.first == 0, "stage ", turns.first, " takes no turns");
}

// The first stages (turns_.count of them) begin with the one whose turn it is; all others follow in their order. The
// stage that was held up first begins the next round.
Progress InlineStages::round() {
  bool all_ended = true, made = false;
  std::optional<std::size_t> held_up;
  for (std::size_t place = 0; place < stages_.size(); ++place) {
    const std::size_t index = at_place(place);
    const Progress progress = step(index);
    made = made || progress == Progress::kMade;
    all_ended = all_ended && ended_[index] != 0;
    if (place < turns_.count && progress == Progress::kNone && ended_[index] == 0 && !held_up) held_up = index;
  }
  // The circle keeps turning only when somebody was held up: with room for all, the order stays.
  if (held_up) turns_.first = *held_up;
  if (all_ended) return Progress::kEnded;
  return made ? Progress::kMade : Progress::kNone;
}

// Makes one step of a stage, without a wait. A stage that ends in it has made progress: its end may let others go on.
Progress InlineStages::step(std::size_t index) {
  if (ended_[index] != 0) return Progress::kNone;
  const Progress progress = step_of(stages_[index], {.deadline = Deadline::after(Clock::duration::zero()), .stop = {}});
  if (progress != Progress::kEnded) return progress;
  ended_[index] = 1;
  return Progress::kMade;
}

StageThreads::StageThreads(std::vector<Stage> stages)
    : stages_(std::move(stages)), is_running_(stages_.size(), 1), left_(stages_.size()) {
  try {
    for (std::size_t i = 0; i < stages_.size(); ++i)
      workers_.push_back(std::make_unique<Worker>(stages_[i].name, [this, i](const std::stop_token&) { run(i); }));
  } catch (...) {
    stop();  // the threads that did start would go on for ever
    throw;
  }
}

// A stage's thread. It counts as returned however it ends, by the destructor of Return. A failure is recorded before it
// stops the other stages, so that their GroupAborted come after their cause.
void StageThreads::run(std::size_t index) {
  struct Return {
    ~Return() {
      MutexLock lock(threads.mutex_);
      threads.is_running_[index] = 0;
      --threads.left_;
      threads.returned_.notify_all();
    }
    StageThreads& threads;
    std::size_t index;
  };
  const Return on_return{*this, index};
  try {
    const Limits limits{.deadline = Deadline::infinite(), .stop = token()};
    while (!token().stop_requested() && step_of(stages_[index], limits) != Progress::kEnded) {
    }
  } catch (...) {
    failures_.add(stages_[index].name, std::current_exception());
    stop();
  }
}

// Those that are late are known before the stop, at which they may return at once.
void StageThreads::join(const Deadline& deadline) {
  const std::vector<std::string> late = await_return(deadline);
  if (!late.empty()) {
    stop();
    fail_hung("", late);
  }
  failures_.rethrow();
}

// The failure of a stage is the cause and goes before `why`.
void StageThreads::fail(const std::string& why, const Deadline& deadline) {
  stop();
  const std::vector<std::string> late = await_return(deadline);
  if (!late.empty()) fail_hung(why, late);
  failures_.rethrow();
  throw DeadlineExceeded(why);
}

std::vector<std::string> StageThreads::await_return(const Deadline& deadline) {
  std::vector<std::string> late;
  MutexLock lock(mutex_);
  if (returned_.wait(mutex_, deadline, [this]() TANDEM_REQUIRES(mutex_) { return left_ == 0; })) return late;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (is_running_[i] != 0) late.push_back(stages_[i].name);
  }
  return late;
}

// A failure of a stage is told before `why`: it came first, and may be why the others hang.
void StageThreads::fail_hung(const std::string& why, const std::vector<std::string>& late) const {
  std::string reason = why;
  try {
    failures_.rethrow();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  throw HungThread(concat(reason, reason.empty() ? "" : "; ", "these threads of the pipeline have not ended in time: ",
                          joined(late), ", and none can be ended from outside"));
}

}  // namespace tandem::pipeline
