// pipeline/learner_pipeline.h: sampling and learning at the same time: rollout workers, a bounded queue, loaders with
// their buffers, and the learner.
//
//   rollout workers --BatchQueue--> loaders --LoadedBuffers--> learner --results--> the owner
//
// After RLlib's LearnerThread and MultiGPULearnerThread; docs/learner-threads.md says what differs. The whole data flow
// is in this file. The user defines what a batch, a buffer and a result are, and how one becomes the other.
//
// Threads: the constructor, next(), drain() and the destructor belong to the owner. produce() of each worker, load() of
// each loader and learn() run on a thread of their own each. With Execution::kInline all run on the owner's thread,
// within next() and drain() and always in the same order: workers make and queue their batches in turn.
//
// Blocking: a stage waits for the stage before it when it has nothing to do, and for the stage after it when that is
// full. Besides:
// - the learner waits until the owner takes its results, and, with permits, until it has a permit;
// - with a bound on policy lag and BeyondLag::kWait, a worker waits until its next batch cannot become too old;
// - a learner that gets no batch for `starvation` fails with DeadlineExceeded, which says who produced last;
// - next() and drain() fail with DeadlineExceeded when one call of produce(), load() or learn() lasts longer than
//   `stall`, and name its stage. Inline nobody watches: a call that does not return keeps its owner.
//
// Errors: the first failure of any stage stops all; next() and drain() throw it with the stage's name. When a thread
// has not come back `grace` later, they throw HungThread instead, which tells the failure. The destructor aborts: it
// drops what is on its way and joins all threads, however long a hung one takes.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/concurrency/stall_watch.h"
#include "tandem/concurrency/trace.h"
#include "tandem/pipeline/admission.h"
#include "tandem/pipeline/batches.h"
#include "tandem/pipeline/minibatch_buffer.h"
#include "tandem/pipeline/pipeline_options.h"
#include "tandem/pipeline/pipeline_stats.h"
#include "tandem/pipeline/stages.h"

namespace tandem::pipeline {

/// Describes the batch that the learner is about to learn from.
struct LearnStep {
  BatchTag tag;
  // Learner steps that were made since the parameters which the batch was sampled with.
  std::int64_t lag = 0;
  bool first_pass = true;
};

template <typename Batch, typename Buffer, typename Result>
class LearnerPipeline {
 public:
  struct Work {
    /// Makes a worker's next batch, or nothing when there will be no more.
    std::function<std::optional<Tagged<Batch>>(int worker)> produce;
    /// Copies a batch into a buffer. Called by several loaders at once for different buffers.
    std::function<void(Batch&, Buffer&)> load;
    /// Makes one pass over a loaded batch: a learner step. The number of steps before it is the version of the
    /// parameters.
    std::function<Result(Buffer&, const LearnStep&)> learn;
    /// Gives the result for a loaded batch that is too old and is not learned from. Needed for BeyondLag::kDrop.
    std::function<Result(Buffer&, const LearnStep&)> drop = {};
  };

  /// Starts at once. `buffers`: one is learned from while the others are loaded. `version`: learner steps made before.
  /// `stats` outlives this. Throws ConfigError when there are more loaders than buffers.
  LearnerPipeline(const PipelineOptions& options, std::vector<Buffer> buffers, Work work, std::int64_t version,
                  PipelineStats& stats)
      : options_(options),
        work_(std::move(work)),
        stats_(stats),
        queue_(options.queue, options.workers),
        workers_(static_cast<std::size_t>(options.workers)),
        loaded_(std::move(buffers), options.loaders),
        minibatches_({.slots = loaded_.size(), .passes = options.passes, .first_passes = options.first_passes}),
        results_(options.results),
        version_(version),
        stages_(make_stages()),
        marks_(stages_.size()),
        watch_(watched()) {
    TANDEM_CHECK(!drops() || options.permits == nullptr, "a batch that is dropped is no step");
    if (drops()) TANDEM_CHECK(work_.drop, "nothing says what becomes of batches that are too old");
    if (options.lag_bound && !drops()) window_.emplace(width(*options.lag_bound, options.passes));
    if (options.execution == Execution::kInline) {
      const auto first = static_cast<std::size_t>(options.first_worker);
      inline_ = std::make_unique<InlineStages>(stages_, Turns{.count = workers_.size(), .first = first});
    } else {
      threads_ = std::make_unique<StageThreads>(stages_);
    }
  }

  /// Waits for the next result. Empty when the pipeline has ended: no worker has more, and all is learned.
  [[nodiscard]] std::optional<Result> next() {
    if (inline_) return next_inline();
    std::optional<Result> result = await_result(Deadline::infinite());
    if (!result) threads_->join(Deadline::after(options_.grace));
    return result;
  }

  /// Lets the workers finish the batches that they are at, learns from all that is on its way, and hands each result to
  /// `take`. Afterwards everything has ended. Throws DeadlineExceeded naming the threads that were not done in time.
  template <typename Take>
  void drain(const Deadline& deadline, const Take& take) {
    draining_.store(true, std::memory_order_relaxed);
    while (std::optional<Result> result = inline_ ? next_inline() : await_result(deadline)) {
      take(std::move(*result));
    }
    if (threads_) threads_->join(deadline);
  }

  /// Where batches are, for tests and for reports of what a stuck run waits for.
  [[nodiscard]] const BatchQueue<Batch>& queue() const { return queue_; }
  [[nodiscard]] const LoadedBuffers<Buffer>& buffers() const { return loaded_; }
  [[nodiscard]] std::size_t learner_waiting_for_owner() const { return results_.blocked_producers(); }
  /// Batches that workers made and could not queue any more. Only once all has ended or failed.
  [[nodiscard]] std::size_t held_by_workers() const {
    return static_cast<std::size_t>(
        std::count_if(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.made.has_value(); }));
  }
  /// Batches with passes left. Only once all has ended or failed.
  [[nodiscard]] std::size_t held_by_learner() const { return minibatches_.held(); }

 private:
  using Loaded = typename LoadedBuffers<Buffer>::Loaded;
  // Used by the stage of one worker alone, so it needs no lock. A made batch waits here while the queue is full.
  struct Worker {
    // The batch that was made and is not queued yet.
    std::optional<Tagged<Batch>> made;
    // The time at which the batch was made; from then on the worker waits for room.
    Clock::time_point since;
    Clock::duration working{0}, waited{0};
  };

  // In this order: rollout workers, loaders, the learner.
  std::vector<Stage> make_stages() {
    std::vector<Stage> stages;
    for (int i = 0; i < options_.workers; ++i) {
      stages.push_back({.name = concat("rollout ", i),
                        .step = [this, i](const Limits& limits) { return produce(i, limits); },
                        .ended = [this] { queue_.producer_ended(); },
                        .limit = options_.stall});
    }
    for (int i = 0; i < options_.loaders; ++i) {
      stages.push_back({.name = concat("loader ", i),
                        .step = [this, stage = stages.size()](const Limits& limits) { return load(stage, limits); },
                        .ended = [this] { loaded_.loader_ended(); },
                        .limit = options_.stall});
    }
    stages.push_back({.name = "learner",
                      .step = [this](const Limits& limits) { return learn(limits); },
                      .ended = [this] { results_.close(); },
                      .limit = options_.stall + options_.peers});
    return stages;
  }

  std::vector<StallWatch::Watched> watched() {
    std::vector<StallWatch::Watched> all;
    for (std::size_t i = 0; i < stages_.size(); ++i) all.push_back({&marks_[i], stages_[i].name, stages_[i].limit});
    return all;
  }

  [[nodiscard]] bool drops() const { return options_.lag_bound && options_.lag_bound->then == BeyondLag::kDrop; }

  // The window's width for a bound on lag. With width W, at most 2 (W - 1) batches are learned from between the begin
  // of a batch and its first pass (StartWindow), each in so many passes.
  static std::int64_t width(const LagBound& bound, int passes) { return bound.steps / (2 * std::int64_t{passes}) + 1; }

  // A worker's step: makes a batch and queues it. A batch that could not be queued is kept for the next step.
  Progress produce(int index, const Limits& limits) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    if (!worker.made) {
      if (const Progress progress = make(index, limits); progress != Progress::kMade) return progress;
    }
    {
      const Span span("wait for room");
      if (!queue_.push(std::move(*worker.made), limits)) return Progress::kNone;
    }
    worker.made.reset();
    stats_.produced(worker.working, worker.waited + (Clock::now() - worker.since));
    return Progress::kMade;
  }

  // Makes the worker's next batch. With a window, the batch begins when the window lets it. A batch that was begun in
  // the window is over also when it is not made, or the window would never move on.
  Progress make(int index, const Limits& limits) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    if (draining_.load(std::memory_order_relaxed)) {
      if (window_) window_->withdraw(index);
      return Progress::kEnded;
    }
    const Clock::time_point asked = Clock::now();
    const std::optional<std::int64_t> number = window_ ? window_->begin(index, limits) : 0;
    if (!number) return Progress::kNone;
    const bool is_due =
        !draining_.load(std::memory_order_relaxed) && (options_.claims == nullptr || options_.claims->claim());
    const Clock::time_point begun = Clock::now();
    if (is_due) {
      const CallMark::Call call = marks_[static_cast<std::size_t>(index)].enter();
      worker.made = work_.produce(index);
    }
    if (!worker.made) {
      if (window_) window_->end(*number);
      return Progress::kEnded;
    }
    worker.made->tag.producer = index;
    worker.made->tag.number = *number;
    stats_.sampled(worker.made->tag.samples);  // before anybody can have learned from them
    worker.waited = begun - asked;
    worker.since = Clock::now();
    worker.working = worker.since - begun;
    return Progress::kMade;
  }

  Progress load(std::size_t stage, const Limits& limits) {
    LoadTimes times;
    const auto watched = [this, stage](Batch& batch, Buffer& buffer) {
      const CallMark::Call call = marks_[stage].enter();
      work_.load(batch, buffer);
    };
    const Progress progress = loaded_.load_one(queue_, watched, limits, times);
    if (progress == Progress::kMade) stats_.loaded(times.dequeue, times.load);
    return progress;
  }

  // The learner's step: makes a pass and hands out its result. A result that could not be handed out is kept.
  Progress learn(const Limits& limits) {
    if (!learned_) {
      const Progress progress = learn_once(limits);
      if (progress != Progress::kMade) return progress;
    }
    if (!results_.push(std::move(*learned_), limits.stop, limits.deadline)) return Progress::kNone;
    learned_.reset();
    return Progress::kMade;
  }

  // Makes one pass. The pass, and after its last pass the buffer, is given back here, before learn() hands out the
  // result, which may have to wait: loaders can go on meanwhile.
  Progress learn_once(const Limits& limits) {
    if (options_.permits != nullptr && !options_.permits->await(limits)) return Progress::kNone;
    const Clock::time_point begun = Clock::now();
    const Deadline starved = Deadline::after(options_.starvation);
    const bool own_limit = starved.at() < limits.deadline.at();
    auto pass = next_pass({.deadline = own_limit ? starved : limits.deadline, .stop = limits.stop});
    if (!pass) {
      if (loaded_.drained()) return Progress::kEnded;
      if (own_limit && starved.expired()) fail_starved();
      return Progress::kNone;
    }
    const Clock::time_point got = Clock::now();
    const BatchTag& tag = pass->batch().tag();
    const LearnStep step{.tag = tag, .lag = version_ - tag.version, .first_pass = pass->first()};
    if (drops() && step.first_pass && step.lag > options_.lag_bound->steps) {
      const CallMark::Call call = marks_.back().enter();
      learned_.emplace(work_.drop(pass->batch().buffer(), step));
      pass->give_up();
      stats_.dropped(tag.samples);
      return Progress::kMade;
    }
    const std::size_t queued = queue_.size();
    learned_.emplace(learn_from(pass->batch().buffer(), step));
    ++version_;
    if (options_.permits != nullptr) options_.permits->use();
    stats_.learned({.queue_size = queued,
                    .waiting = got - begun,
                    .learning = Clock::now() - got,
                    .samples = tag.samples,
                    .lag = step.lag,
                    .first_pass = step.first_pass});
    if (window_ && pass->last()) window_->end(tag.number);
    return Progress::kMade;
  }

  auto next_pass(const Limits& limits) {
    const Span span("wait for batch");
    return minibatches_.next(loaded_, limits);
  }

  Result learn_from(Buffer& buffer, const LearnStep& step) {
    const Span span("learn");
    const CallMark::Call call = marks_.back().enter();
    return work_.learn(buffer, step);
  }

  [[noreturn]] void fail_starved() const {
    throw DeadlineExceeded(
        concat("no batch to learn from for ", std::chrono::duration<double>(options_.starvation).count(), " s; ",
               queue_.history(),
               ". A rollout worker or its environment may be stuck, or slower than learner_queue_timeout", " allows"));
  }

  // Waits for a result, and looks for stalled stages meanwhile. Returns nothing when the pipeline has ended or failed,
  // or at the deadline.
  std::optional<Result> await_result(const Deadline& deadline) {
    for (;;) {
      if (const std::string stalled = watch_.look(); !stalled.empty()) fail_stalled(stalled);
      const Deadline look = watch_.next_look();
      const bool looks = look.at() < deadline.at();
      std::optional<Result> result = results_.pop(threads_->token(), looks ? look : deadline);
      const bool over = threads_->token().stop_requested() || (results_.closed() && results_.size() == 0);
      if (result || over || !looks) return result;
    }
  }

  [[noreturn]] void fail_stalled(const std::string& stalled) {
    threads_->fail(
        concat("in one call: ", stalled, " (stall_timeout); ", queue_.history(), ", ", loaded_.ready(), " of ",
               loaded_.size(),
               " buffers ready for the learner. An environment or a device may hang, or be slower than that"),
        Deadline::after(options_.grace));
  }

  // Runs rounds of all stages until there is a result. Returns nothing when all have ended.
  std::optional<Result> next_inline() {
    for (;;) {
      if (std::optional<Result> result = results_.try_pop()) return result;
      const Progress progress = inline_->round();
      if (progress == Progress::kEnded) return results_.try_pop();
      TANDEM_CHECK(progress == Progress::kMade || results_.size() > 0, "no stage of the pipeline can go on");
    }
  }

  // The order of the members matters: stages use everything above threads_, which is destroyed, and so joined, first.
  const PipelineOptions options_;
  const Work work_;
  // Not owned. All stages write to it; it has a mutex of its own.
  PipelineStats& stats_;
  std::atomic<bool> draining_{false};
  BatchQueue<Batch> queue_;
  std::vector<Worker> workers_;  // one a worker, its own
  // Present with a bound on lag that workers wait for.
  std::optional<StartWindow> window_;
  LoadedBuffers<Buffer> loaded_;
  // The learner's stage alone uses these, up to learned_.
  MinibatchBuffer<Loaded> minibatches_;
  BoundedQueue<Result> results_;
  std::int64_t version_;
  // A result that could not be handed out yet, since the owner has not taken earlier ones.
  std::optional<Result> learned_;
  const std::vector<Stage> stages_;
  std::vector<CallMark> marks_;  // of calls of work_, by stage
  StallWatch watch_;
  std::unique_ptr<InlineStages> inline_;  // one of the two; last: joined before what the stages use is gone
  std::unique_ptr<StageThreads> threads_;
};

}  // namespace tandem::pipeline
