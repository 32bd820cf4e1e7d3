// concurrency/spin.h: how a thread looks for a change before it sleeps, learned from its own last waits.
//
// Waking a sleeper costs tens of microseconds, of a thread on an idle core most; looking costs a core. So a thread
// looks for about as long as a wake-up would take, and then sleeps. That alone has two faults. Where threads that wait
// for each other are on one core, the one that looks keeps the other one from its core for all of that time. And once a
// thread has slept, its wake-up takes longer than the others look, so these sleep too, and from then on all of them
// sleep at every wait. A Patience mends both: it gives its core away where the other one can only come by that, and it
// looks longer after a short wait that took a sleep. Where waits are long, it looks less and less. None of this changes
// which numbers come out.
//
//   Patience patience = patience_among(replicas);   // of one waiting thread
//   if (!patience.look(done, [&] { return last_core_of_peer.is_mine(); })) {
//     sleep_until_done();
//     patience.slept();
//   }
//
// Threads: a Patience belongs to one thread; all else may be used by any.
#pragma once
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "tandem/base/clock.h"
#include "tandem/concurrency/cores.h"

namespace tandem {

/// How long to spin; zero stands for not at all.
struct SpinBudget {
  std::chrono::nanoseconds limit{0};
};

/// The budget for `threads` threads that do different things and wait for each other: 50 microseconds, or none where
/// they cannot all compute at the same time (concurrency/cores.h).
[[nodiscard]] inline SpinBudget spin_budget_for(int threads) {
  return threads <= usable_cores_at_start().whole() ? SpinBudget{std::chrono::microseconds(50)} : SpinBudget{};
}

/// Tells the core that this is a spin loop. It saves power and leaves the core's units to the other hyperthread; on
/// other processors it does nothing.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks until `done()` holds, or until the budget is used up. Returns the last answer. `done` is called many times a
/// microsecond, so it only reads atomics. The clock is looked at after every 16 answers.
template <typename Done>
bool spin_until(SpinBudget budget, const Done& done) {
  if (budget.limit.count() <= 0) return done();
  const auto look = [&done] {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause_core();
    }
    return false;
  };
  if (look()) return true;  // what is due at once costs no look at the clock
  const Clock::time_point end = Clock::now() + budget.limit;
  do {
    if (look()) return true;
  } while (Clock::now() < end);
  return done();
}

/// The core on which a thread was when it last said so, for those that wait for it. On the core of a waiter it cannot
/// have moved on: the waiter has the core. A thread that was moved meanwhile makes the answer wrong, which costs time
/// only.
class LastCore {
 public:
  /// By the thread itself.
  void sign() { core_.store(::sched_getcpu(), std::memory_order_relaxed); }
  [[nodiscard]] bool is_mine() const {
    const int core = core_.load(std::memory_order_relaxed);
    return core >= 0 && core == ::sched_getcpu();
  }

 private:
  std::atomic<int> core_{-1};
};

/// What a thread does between two looks: it keeps its core, or it gives the core to whoever waits for it.
enum class Between { kPause, kYield };

class Patience {
 public:
  /// `usual` is how long to look while nothing is known of the last waits; zero: never look longer than a few times.
  explicit Patience(SpinBudget usual, Between between = Between::kPause)
      : usual_(usual.limit), between_(between), limit_(usual.limit) {}

  /// Looks until `done()` holds, or for as long as seems worth it. Returns the last answer; after a false one the
  /// caller sleeps, and then calls slept(). `shares_core()` says whether a thread that is waited for was last seen on
  /// this core. Both are called many times a microsecond, so they only read atomics.
  template <typename Done, typename SharesCore>
  [[nodiscard]] bool look(const Done& done, const SharesCore& shares_core) {
    if (look_often(done)) return true;  // what is due at once costs no look at the clock
    began_ = Clock::now();
    if (limit_.count() <= 0 || sleeps_at_once()) return false;
    Clock::time_point now = began_;
    bool is_done = false, has_yielded = false;
    while (!is_done && now < began_ + limit_) {
      if (between_ == Between::kYield || shares_core()) {
        ::sched_yield();
        has_yielded = true;
        is_done = done();
      } else {
        is_done = look_often(done);
      }
      now = Clock::now();
    }
    if (has_yielded) learn_yielded(now - began_);
    if (is_done) learn_looked(now - began_);
    return is_done;
  }
  template <typename Done>
  [[nodiscard]] bool look(const Done& done) {
    return look(done, [] { return false; });
  }
  /// After the sleep that followed a look in vain.
  void slept() { learn_slept(Clock::now() - began_); }

  /// How long the next look may take.
  [[nodiscard]] SpinBudget budget() const { return {limit_}; }

 private:
  // A wait that is not over after a wake-up or two is better slept through.
  static constexpr int kMost = 4;    // times the usual
  static constexpr int kWorth = 20;  // times the usual: after a longer wait nobody is just being woken
  static constexpr int kLeast = 16;  // the least is this part of the usual
  static constexpr int kMostSleeps = 256;

  template <typename Done>
  static bool look_often(const Done& done) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause_core();
    }
    return false;
  }
  // Whether this wait is one of those that learn_yielded() has sleep without a look. Each call uses one up; none is
  // left where the last yield was short, as on cores that no stranger shares.
  bool sleeps_at_once() {
    if (sleeps_left_ == 0) return false;
    --sleeps_left_;
    return true;
  }
  // Whoever got the core kept it for long: a stranger, who takes his whole slice each time, or a member that computes,
  // for which a sleep is as good. A thread that sleeps is let in sooner than one that yielded. So the next waits sleep
  // at once, twice as many each time.
  void learn_yielded(Clock::duration waited) {
    if (waited <= kWorth * usual_) {
      sleeps_after_ = 1;
      return;
    }
    sleeps_left_ = sleeps_after_;
    sleeps_after_ = std::min(2 * sleeps_after_, kMostSleeps);
  }
  // Goes back to the usual slowly, since a thread that sleeps at some waits lets others sleep again.
  void learn_looked(Clock::duration waited) {
    const Clock::duration wanted = std::max<Clock::duration>(limit_ - limit_ / 16, 2 * waited);
    limit_ = std::clamp<Clock::duration>(wanted, usual_, kMost * usual_);
  }
  void learn_slept(Clock::duration waited) {
    if (waited > kWorth * usual_)
      limit_ = std::max<Clock::duration>(usual_ / kLeast, std::min<Clock::duration>(limit_, usual_) / 2);
    else
      limit_ = kMost * usual_;
  }

  std::chrono::nanoseconds usual_;
  Between between_;
  std::chrono::nanoseconds limit_;
  int sleeps_left_ = 0, sleeps_after_ = 1;  // waits that sleep at once; the value after the next yield in vain
  Clock::time_point began_{};
};

/// The patience of each of `members` threads or ranks that do the same work and wait for each other. Where they have no
/// core each, a waiter gives its core to the next one: a switch takes a microsecond, a wake-up many. Where they have,
/// and a quota leaves them less time than cores, a waiter sleeps at once: what it spends on looking, the others lack.
[[nodiscard]] inline Patience patience_among(int members, const UsableCores& cores) {
  if (members <= cores.whole()) return Patience(SpinBudget{std::chrono::microseconds(50)});
  if (members <= cores.bound) return Patience(SpinBudget{});
  return Patience(SpinBudget{std::chrono::microseconds(20)}, Between::kYield);
}
[[nodiscard]] inline Patience patience_among(int members) { return patience_among(members, usable_cores_at_start()); }

}  // namespace tandem
