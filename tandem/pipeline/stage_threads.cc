#include "tandem/pipeline/stage_threads.h"

#include "tandem/base/error.h"
#include "tandem/base/rethrow.h"
#include "tandem/base/text.h"

namespace tandem::pipeline {

StageThreads::StageThreads(std::vector<Stage> stages, const std::stop_token& parent)
    : stages_(std::move(stages)), is_running_(stages_.size(), 1), left_(stages_.size()), group_(parent) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    group_.start(stages_[i].name, [this, i](const std::stop_token& stop) { run(i, stop); });
  }
}

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

void StageThreads::join(const Deadline& deadline) {
  bool all = false;
  {
    MutexLock lock(mutex_);
    all = returned_.wait(mutex_, deadline, [this]() TANDEM_REQUIRES(mutex_) { return left_ == 0; });
  }
  if (!all) {
    stop();
    group_.failures().rethrow();
    throw DeadlineExceeded(concat("these threads of the pipeline have not ended in time: ", running()));
  }
  group_.join();
}

std::string StageThreads::running() const {
  std::string names;
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (is_running_[i] != 0) names += concat(names.empty() ? "" : ", ", stages_[i].name);
  }
  return names;
}

}  // namespace tandem::pipeline
