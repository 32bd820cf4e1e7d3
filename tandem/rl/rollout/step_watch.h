// rl/rollout/step_watch.h: which env groups have been inside one step for too long. A step that hangs cannot be told
// from one that is very slow in any other way.
//
// A step costs no look at a clock: its group counts that it comes and goes, and whoever watches looks now and then
// whether a group is still in the step in which it was.
//
// Threads: a StepMark is written by the thread that steps and read by any; a StepWatch is its owner's. Nothing blocks.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/base/clock.h"

namespace tandem::rl {

/// Written by the thread that steps the group, read by any. Entering and leaving cost one relaxed store each.
class StepMark {
 public:
  /// The group is inside a step while this lives.
  class Step {
   public:
    explicit Step(std::atomic<std::uint64_t>& count) : count_(count) { add_one(); }
    ~Step() { add_one(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    void add_one() { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    std::atomic<std::uint64_t>& count_;
  };
  [[nodiscard]] Step enter() { return Step(count_); }

  /// How often the group came and went: odd inside a step.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

/// Threads: look() and next_look() belong to one observer. It sees that a count stays odd, and measures from the look
/// at which it first saw that; so no clock is read while environments step.
class StepWatch {
 public:
  struct Group {
    // The mark of the group's worker, which must outlive the watch.
    const StepMark* mark;
    std::string name;  // "env group 1 (CartPole-v1, environments 4 to 7)"
  };
  /// `option`: which the limit is, for the message.
  StepWatch(std::vector<Group> groups, Clock::duration limit, std::string option);

  [[nodiscard]] Clock::duration limit() const { return limit_; }
  /// Looked at so often, a step is seen to be too long at the latest when it has lasted a quarter longer than the
  /// limit.
  [[nodiscard]] Deadline next_look() const { return Deadline::after(limit_ / 8); }
  /// Looks: a sentence with the groups whose step is too long, or nothing.
  [[nodiscard]] std::string look();

 private:
  // The count at the last look, and when this count was first seen.
  struct Seen {
    std::uint64_t count = 0;
    Clock::time_point since;
  };

  const std::vector<Group> groups_;
  const Clock::duration limit_;
  const std::string option_;
  std::vector<Seen> seen_;  // by group
};

/// "env group 1 (CartPole-v1, environments 4 to 7)", of equal groups of `envs`.
[[nodiscard]] std::string name_of_group(const std::string& env, int group, int envs);

}  // namespace tandem::rl
