// app/run/line_schedule.h: which updates have a line of metrics.jsonl.
//
// A run of a small policy makes hundreds of updates a second, and a line each would be gigabytes a day. So the lines
// get rarer as the run gets longer: the first `dense` lines come every `every` updates; from there on every second of
// these updates has one, and each time the length of the run doubles, every second of those. So each doubling adds
// about half of `dense` lines, and the lines of any run are close enough together to draw its curve.
//
// An update has a line or has none by its number alone, so a run that is resumed has the lines of one that never was
// interrupted.
//
// Threads: values; any.
#pragma once
#include <cstdint>
#include <limits>

namespace tandem::app {

struct LineSchedule {
  std::int64_t every = 1, dense = std::numeric_limits<std::int64_t>::max();  // both at least 1

  [[nodiscard]] bool has_line(std::int64_t update) const { return update % interval_at(update).updates == 0; }

  /// The last update with a line that is not beyond `update`; 0 where there is none.
  [[nodiscard]] std::int64_t last_until(std::int64_t update) const {
    while (true) {
      const Interval its = interval_at(update);
      const std::int64_t last = update - update % its.updates;
      if (last > its.behind || its.behind == 0) return last;
      update = its.behind;
    }
  }

 private:
  // Updates from one line to the next, behind the update `behind`.
  struct Interval {
    std::int64_t updates = 1, behind = 0;
  };
  [[nodiscard]] Interval interval_at(std::int64_t update) const {
    Interval its{.updates = every};
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = dense > kMost / every ? kMost : every * dense;
    const auto twice = [](std::int64_t number) { return number > kMost / 2 ? kMost : 2 * number; };
    for (; update > end; end = twice(end)) its = {.updates = twice(its.updates), .behind = end};
    return its;
  }
};

}  // namespace tandem::app
