// concurrency/spin.h: how long a thread looks for a change before it sleeps.
//
// Waking a sleeper costs tens of microseconds, spinning costs a core. So: spin when every waiting thread can have a
// core of its own, and only for about as long as a wake-up would take; sleep at once when there are more threads than
// cores. This changes when things happen and never which numbers come out.
#pragma once
#include <chrono>

#include "tandem/base/clock.h"

namespace tandem {

struct SpinBudget {
  std::chrono::nanoseconds limit{0};
};

/// Cores that this process may run on (its CPU affinity).
[[nodiscard]] int available_cores();

/// The budget for `threads` threads that wait for each other: none if they are more than the cores.
[[nodiscard]] SpinBudget spin_budget_for(int threads);

/// Tells the core that this is a spin loop.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks until `done()`, or until the budget is used up; returns the last answer.
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
