// concurrency/spin.h: how long a thread looks for a change before it sleeps.
//
// Waking a sleeper costs tens of microseconds; spinning costs a core. So a thread spins when every waiting thread can
// have a core of its own, and only for about as long as a wake-up would take. When there are more threads than cores, a
// thread sleeps at once. The choice changes when things happen, and never which numbers come out.
//
//   const SpinBudget spin = spin_budget_for(replicas);
//   if (!spin_until(spin, [&] { return done.load(); })) sleep_until_done();
//
// Threads: all.
#pragma once
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tandem/base/clock.h"

namespace tandem {

/// How long to spin; zero stands for not at all.
struct SpinBudget {
  std::chrono::nanoseconds limit{0};
};

/// The number of cores that this process may run on (its CPU affinity). A container's quota of processor time does not
/// count, only the set of cores.
[[nodiscard]] inline int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more cores than a cpu_set_t holds
}

/// The budget for `threads` threads that wait for each other: 50 microseconds, or none if there are more threads than
/// cores. The cores are counted once: the affinity of a process seldom changes, and the call is made for each team.
[[nodiscard]] inline SpinBudget spin_budget_for(int threads) {
  static const int cores = available_cores();
  return threads <= cores ? SpinBudget{std::chrono::microseconds(50)} : SpinBudget{};
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

}  // namespace tandem
