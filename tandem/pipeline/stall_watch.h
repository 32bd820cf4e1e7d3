// pipeline/stall_watch.h: which stage of a pipeline is inside a call of its user's code, and since when.
//
// A call that lasts longer than its stage's limit is a stall. Nothing else tells an environment or a loss that hangs
// from one that is very slow. Waits for another stage are no calls, so a stage that waits for a stalled one is not
// blamed.
//
// Threads: all; each stage enters its own calls. Nothing blocks: a call costs two stores to an atomic that only its
// stage writes, and the owner looks from time to time.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"

namespace tandem::pipeline {

/// Only observes: it cannot end a call. The owner decides what follows from a stall.
class StallWatch {
 public:
  struct Stage {
    std::string name;  // "rollout 0"
    // The longest that one call may last.
    Clock::duration limit;
  };
  /// All stages begin outside a call.
  explicit StallWatch(std::vector<Stage> stages) : stages_(std::move(stages)), since_(stages_.size()) {}

  /// The stage is inside a call while this object lives.
  /// Calls of one stage must not overlap, since a stage has one time stamp.
  class Call {
   public:
    explicit Call(std::atomic<Clock::rep>& since) : since_(since) {
      since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    }
    ~Call() { since_.store(kNone, std::memory_order_relaxed); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::atomic<Clock::rep>& since_;
  };
  /// `stage`: its place in the constructor's list.
  [[nodiscard]] Call enter(int stage) { return Call(since_[static_cast<std::size_t>(stage)]); }

  /// The stages that are over their limits, "loader 1 for 31 s, and 30 s are allowed"; empty when none is.
  [[nodiscard]] std::string stalled() const {
    std::string text;
    const Clock::time_point now = Clock::now();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Clock::rep since = since_[i].load(std::memory_order_relaxed);
      if (since == kNone) continue;
      const Clock::duration lasts = now.time_since_epoch() - Clock::duration(since);
      if (lasts < stages_[i].limit) continue;
      text += concat(text.empty() ? "" : ", ", stages_[i].name, " for ", std::chrono::duration<double>(lasts).count(),
                     " s, and ", std::chrono::duration<double>(stages_[i].limit).count(), " s are allowed");
    }
    return text;
  }
  /// The time before which no stage can be over its limit. The owner need not look earlier.
  [[nodiscard]] Deadline next_look() const {
    const Clock::time_point now = Clock::now();
    Clock::duration least = Clock::duration::max();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Clock::rep since = since_[i].load(std::memory_order_relaxed);
      const Clock::duration lasts =
          since == kNone ? Clock::duration::zero() : now.time_since_epoch() - Clock::duration(since);
      least = std::min(least, stages_[i].limit - lasts);
    }
    return Deadline::after(least);
  }

 private:
  static constexpr Clock::rep kNone = -1;  // not inside a call
  // Ticks of Clock at which the present call began, or kNone. A vector needs the default constructor.
  struct Since : std::atomic<Clock::rep> {
    Since() : std::atomic<Clock::rep>(kNone) {}
  };

  // since_[i] belongs to stages_[i]. Relaxed order is enough: the time stamp orders no other memory.
  const std::vector<Stage> stages_;
  std::vector<Since> since_;
};

}  // namespace tandem::pipeline
