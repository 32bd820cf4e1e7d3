#include "tandem/pipeline/stage_threads.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::pipeline {

StageThreads::StageThreads(std::vector<Stage> stages, const std::stop_token& parent)
    : stages_(std::move(stages)), is_running_(stages_.size(), 1), left_(stages_.size()), group_(parent) {
  // All members are ready before the first thread starts: run() uses them at once.
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    group_.start(stages_[i].name, [this, i](const std::stop_token& stop) { run(i, stop); });
  }
}

// A stage's thread. It counts as returned however it ends, by the destructor of Return; a failure goes on to the group,
// which stops the other stages.
void StageThreads::run(std::size_t index, const std::stop_token& stop) {
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
  const Stage& stage = stages_[index];
  try {
    const Limits limits{.deadline = Deadline::infinite(), .stop = stop};
    while (!stop.stop_requested()) {
      if (stage.step(limits) != Progress::kEnded) continue;
      stage.ended();
      return;
    }
  } catch (...) {
    rethrow_with(stage.name + ": ");
  }
}

// The wait with a deadline comes first, since group_.join() waits without one.
void StageThreads::join(const Deadline& deadline) {
  if (!await_return(deadline)) {
    stop();
    fail_hung("");
  }
  group_.join();
}

// The failure of a stage, which group_.join() rethrows, is the cause and goes before `why`.
void StageThreads::fail(const std::string& why, const Deadline& deadline) {
  stop();
  if (!await_return(deadline)) fail_hung(why);
  group_.join();
  throw DeadlineExceeded(why);
}

// Waits until all stages have returned. Returns false at the deadline.
bool StageThreads::await_return(const Deadline& deadline) {
  MutexLock lock(mutex_);
  return returned_.wait(mutex_, deadline, [this]() TANDEM_REQUIRES(mutex_) { return left_ == 0; });
}

// A failure of a stage is told before `why`: it came first, and may be why the others hang.
void StageThreads::fail_hung(const std::string& why) const {
  std::string reason = why;
  try {
    group_.failures().rethrow();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  throw HungThread(concat(reason, reason.empty() ? "" : "; ", "these threads of the pipeline have not ended in time: ",
                          running(), ", and none can be ended from outside"));
}

std::string StageThreads::running() const {
  // Names are those of stages whose Return was not destroyed yet.
  std::string names;
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (is_running_[i] != 0) names += concat(names.empty() ? "" : ", ", stages_[i].name);
  }
  return names;
}

}  // namespace tandem::pipeline
