// concurrency/stall_watch.h: which of several activities has been inside one call of users' code for too long. A call
// that hangs cannot be told from one that is very slow in any other way.
//
// A call costs no look at a clock: its thread counts that it comes and goes, and whoever watches looks now and then
// whether a thread is still in the call in which it was.
//
// Threads: a CallMark is written by the thread that calls and read by any; a StallWatch is its owner's. Nothing blocks.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"

namespace tandem {

/// Entering and leaving cost one relaxed store each. Calls of one mark must not overlap.
class CallMark {
 public:
  /// The thread is inside a call while this lives.
  class Call {
   public:
    explicit Call(std::atomic<std::uint64_t>& count) : count_(count) { add_one(); }
    ~Call() { add_one(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    void add_one() { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    std::atomic<std::uint64_t>& count_;
  };
  [[nodiscard]] Call enter() { return Call(count_); }

  /// How often the thread came and went: odd inside a call.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

/// Sees that a count stays odd, and measures from the look at which it first saw that. It cannot end a call: the owner
/// decides what follows.
class StallWatch {
 public:
  struct Watched {
    const CallMark* mark;  // not owned; outlives the watch
    std::string name;
    Clock::duration limit;  // the longest that one call may last
  };
  explicit StallWatch(std::vector<Watched> watched) : watched_(std::move(watched)), seen_(watched_.size()) {}

  /// Looked at so often, a call is seen to be too long at the latest when it has lasted a quarter longer than its
  /// limit.
  [[nodiscard]] Deadline next_look() const {
    return Deadline::after(std::ranges::min_element(watched_, {}, &Watched::limit)->limit / 8);
  }
  /// Looks: "loader 1 for 31 s, and 30 s are allowed", of each whose call is too long; empty when none is.
  [[nodiscard]] std::string look() {
    const Clock::time_point now = Clock::now();
    std::string late;
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      const std::uint64_t count = watched_[i].mark->count();
      // A new count means another call, or none: the time begins anew.
      if (seen_[i].count != count) seen_[i] = {.count = count, .since = now};
      const bool inside = count % 2 == 1;
      if (!inside || now - seen_[i].since < watched_[i].limit) continue;
      const std::chrono::duration<double> lasts = now - seen_[i].since, allowed = watched_[i].limit;
      late += concat(late.empty() ? "" : ", ", watched_[i].name, " for ", lasts.count(), " s, and ", allowed.count(),
                     " s are allowed");
    }
    return late;
  }

 private:
  // The count at the last look, and when this count was first seen.
  struct Seen {
    std::uint64_t count = 0;
    Clock::time_point since;
  };

  const std::vector<Watched> watched_;
  std::vector<Seen> seen_;
};

}  // namespace tandem
