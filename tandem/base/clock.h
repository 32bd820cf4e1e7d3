// base/clock.h: times on the clock that nobody sets: how long something took, and when a wait gives up.
//
// A Deadline is a value: make it once at the outermost call and hand it down, so that nested waits share one limit.
#pragma once
#include <chrono>

namespace tandem {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Deadline {
 public:
  /// `span` from now. A span that reaches past the end of the clock is infinite; a negative one has expired already.
  [[nodiscard]] static Deadline after(Clock::duration span) {
    const Clock::time_point now = Clock::now();
    return Deadline(span >= Clock::time_point::max() - now ? Clock::time_point::max() : now + span);
  }
  /// Never expires. For waits that something else ends: a stop token, or an abort.
  [[nodiscard]] static Deadline infinite() { return Deadline(Clock::time_point::max()); }

  [[nodiscard]] bool is_infinite() const { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool expired() const { return !is_infinite() && Clock::now() >= at_; }
  /// Zero once expired; Clock::duration::max() when infinite.
  [[nodiscard]] Clock::duration remaining() const {
    if (is_infinite()) return Clock::duration::max();
    const Clock::duration left = at_ - Clock::now();
    return left > Clock::duration::zero() ? left : Clock::duration::zero();
  }
  [[nodiscard]] Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace tandem
