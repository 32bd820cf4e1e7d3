// base/testing/eventually.h: for tests of waits: looks until another thread has made a condition true.
#pragma once
#include <chrono>
#include <thread>

#include "tandem/base/clock.h"

namespace tandem {

/// True as soon as `condition()` is; false when it has not become true within 20 seconds.
template <typename Condition>
[[nodiscard]] bool eventually(const Condition& condition) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!condition()) {
    if (deadline.expired()) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace tandem
