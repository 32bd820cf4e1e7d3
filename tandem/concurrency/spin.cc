#include "tandem/concurrency/spin.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tandem {

int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more cores than a cpu_set_t holds
}

// The cores are counted once: the affinity of a process seldom changes, and the call is made for each team.
SpinBudget spin_budget_for(int threads) {
  static const int cores = available_cores();
  return threads <= cores ? SpinBudget{std::chrono::microseconds(50)} : SpinBudget{};
}

}  // namespace tandem
