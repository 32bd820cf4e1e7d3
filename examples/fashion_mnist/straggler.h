// Makes one replica slower than it is, to see what a machine of uneven speed costs under each strategy.
#pragma once
#include <chrono>
#include <thread>

#include "tandem/metrics/process_stats.h"

namespace fashion_mnist {

/// Called before each step of the replica: sleeps until its last step took `factor` times what its thread computed.
class Straggler {
 public:
  explicit Straggler(double factor) : factor_(factor) {}

  void lag() {
    const double computed = tandem::thread_cpu_seconds() - computed_until_;
    std::this_thread::sleep_for(std::chrono::duration<double>((factor_ - 1) * computed));
    computed_until_ = tandem::thread_cpu_seconds();
  }

 private:
  const double factor_;
  double computed_until_ = tandem::thread_cpu_seconds();
};

}  // namespace fashion_mnist
