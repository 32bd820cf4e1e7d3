// pipeline/stall_watch.h: which stage of a pipeline is inside a call of its user's code, and since when.
//
// A call that lasts longer than the limit is a stall: an environment or a loss that hangs cannot be told from one that
// is very slow in any other way. Waits for another stage are no calls, so whoever waits for a stalled stage is not
// blamed.
//
// Threads: all; a stage enters its own calls. Nothing blocks.
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

class StallWatch {
 public:
  /// `stages`: their names, "rollout 0".
  StallWatch(std::vector<std::string> stages, Clock::duration limit)
      : names_(std::move(stages)), limit_(limit), since_(names_.size()) {}

  /// The stage is in a call while this lives.
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
  [[nodiscard]] Call enter(std::size_t stage) { return Call(since_[stage]); }

  [[nodiscard]] Clock::duration limit() const { return limit_; }
  /// The stages that are over the limit, "loader 1 for 31 s, learner for 30 s"; empty when none is.
  [[nodiscard]] std::string stalled() const {
    std::string text;
    const Clock::time_point now = Clock::now();
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Clock::rep since = since_[i].load(std::memory_order_relaxed);
      if (since == kNone) continue;
      const Clock::duration lasts = now.time_since_epoch() - Clock::duration(since);
      if (lasts < limit_) continue;
      text += concat(text.empty() ? "" : ", ", names_[i], " for ",
                     std::chrono::duration_cast<std::chrono::duration<double>>(lasts).count(), " s");
    }
    return text;
  }
  /// No stage can be over the limit before.
  [[nodiscard]] Deadline next_look() const {
    const Clock::time_point now = Clock::now();
    Clock::duration most{0};
    for (const std::atomic<Clock::rep>& each : since_) {
      const Clock::rep since = each.load(std::memory_order_relaxed);
      if (since != kNone) most = std::max(most, now.time_since_epoch() - Clock::duration(since));
    }
    return Deadline::after(limit_ - most);
  }

 private:
  static constexpr Clock::rep kNone = -1;
  struct Since : std::atomic<Clock::rep> {
    Since() : std::atomic<Clock::rep>(kNone) {}
  };

  const std::vector<std::string> names_;
  const Clock::duration limit_;
  std::vector<Since> since_;
};

}  // namespace tandem::pipeline
