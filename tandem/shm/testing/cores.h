// shm/testing/cores.h: the cores that the ranks of a test may use, which decide how they wait.
//
// Threads: any; what a thread may use, its children may. Errors: InvariantError when the system refuses.
#pragma once
#include <sched.h>

#include "tandem/base/check.h"

namespace tandem::shm {

/// Ranks that have a core each spin; others meet at gates (shm/arrival_gate.h).
enum class Cores { kOfThisMachine, kOneForAll };

inline cpu_set_t own_cores() {
  cpu_set_t cores;
  TANDEM_CHECK(::sched_getaffinity(0, sizeof(cores), &cores) == 0);
  return cores;
}

inline void bind_to(const cpu_set_t& cores) { TANDEM_CHECK(::sched_setaffinity(0, sizeof(cores), &cores) == 0); }

/// Before the ranks meet.
inline void bind_to(Cores cores) {
  if (cores == Cores::kOfThisMachine) return;
  const cpu_set_t all = own_cores();
  cpu_set_t one;
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_SET(first, &one);
  bind_to(one);
}

}  // namespace tandem::shm
