// base/clock.h: time on the steady clock, which nobody can set: how long something took, and when a wait gives up.
//
// A Deadline is a value. Make one at the outermost call and hand it down, so that nested waits share one limit.
//
//   const Deadline deadline = Deadline::after(std::chrono::minutes(5));
//   while (!deadline.expired()) wait_at_most(deadline.remaining());
//
// Threads: all.
#pragma once
#include <chrono>

namespace tandem {

using Clock = std::chrono::steady_clock;

/// The time from `start` until now, in seconds.
[[nodiscard]] inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Deadline {
 public:
  /// The deadline `span` from now. A span that reaches past the end of the clock gives an infinite deadline, and a
  /// negative one gives a deadline that has expired already.
  [[nodiscard]] static Deadline after(Clock::duration span) {
    const Clock::time_point now = Clock::now();
    return Deadline(span >= Clock::time_point::max() - now ? Clock::time_point::max() : now + span);
  }
  /// A deadline that never expires, for waits that something else ends: a stop token, or an abort.
  [[nodiscard]] static Deadline infinite() { return Deadline(Clock::time_point::max()); }

  [[nodiscard]] bool is_infinite() const { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool expired() const { return !is_infinite() && Clock::now() >= at_; }
  /// The time that is left: zero once expired, Clock::duration::max() when infinite.
  [[nodiscard]] Clock::duration remaining() const {
    if (is_infinite()) return Clock::duration::max();
    const Clock::duration left = at_ - Clock::now();
    return left > Clock::duration::zero() ? left : Clock::duration::zero();
  }
  /// The time of the deadline; Clock::time_point::max() when infinite.
  [[nodiscard]] Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace tandem
